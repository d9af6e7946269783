/**
 * @file
 * The position of a resize's output row or column between those of the input.
 */
#pragma once

#include <stdint.h>

/** Between elements `low` and `high`: share / unit of the way. */
typedef struct {
    int32_t low;
    int32_t high;
    int32_t share;
} dtn_between_t;

/**
 * The place of output element `out` on an axis of `in` elements: (start + out * step) / unit, limited to the axis. With
 * start, step and unit at most 2^17 in magnitude and 2^16 elements, nothing leaves 64 bits.
 */
static inline dtn_between_t dtn_between(int32_t out, int32_t start, int32_t step, int32_t unit, int32_t in)
{
    int64_t last = (int64_t)(in - 1) * unit;
    int64_t at = start + (int64_t)out * step;
    at = at < 0 ? 0 : at;
    at = at > last ? last : at;
    dtn_between_t place = {(int32_t)(at / unit), 0, (int32_t)(at % unit)};
    place.high = place.share == 0 ? place.low : place.low + 1;
    return place;
}
