/**
 * @file
 * How the references of broadcasting kernels (add, mul, extremum, prelu) find their inputs: by an index per dimension.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "deuteron/microcode.h"

enum { DTN_BROADCAST_RANK = sizeof((dtn_add_s8_params_t *)0)->dims / sizeof(int32_t) };

/** One step of a counter with the limits `dims`, last digit first. */
static inline void dtn_broadcast_next(int32_t *index, const int32_t *dims)
{
    for (int32_t d = DTN_BROADCAST_RANK - 1; d >= 0; d--) {
        if (++index[d] < dims[d]) {
            return;
        }
        index[d] = 0;
    }
}

/** The element at `index` of an operand with these strides. */
static inline int8_t dtn_broadcast_element(const int8_t *data, const int32_t *index, const int32_t *strides)
{
    size_t at = 0;
    for (int32_t d = 0; d < DTN_BROADCAST_RANK; d++) {
        at += (size_t)index[d] * (size_t)strides[d];
    }
    return data[at];
}
