/**
 * @file
 * From the 32-bit sums of a layer to its int8 outputs.
 */
#ifndef DTN_SCALE_H
#define DTN_SCALE_H

#include <stddef.h>

#include "cortex_m.h"

/** A factor multiplier * 2^(shift - 31), multiplier 0 or more. */
typedef struct {
    int32_t multiplier;
    int32_t shift;
} dtn_cm_factor_t;

/** The factors of the channels, and zero point and limits of the output. */
typedef struct {
    const int32_t *multipliers;
    const int32_t *shifts;
    size_t step; /**< from one channel's factor to the next: 0 where all share one */
    int32_t offset;
    int32_t lo;
    int32_t hi;
} dtn_cm_scale_t;

/** True for factors that can be computed with. Those of channels are constants, which no check has read. */
bool dtn_cm_are_factors(const int32_t *multipliers, const int32_t *shifts, size_t count);

/** `dtn_cm_requantize`, once for all callers that rarely need it. */
int32_t dtn_cm_requantize_any(int32_t sum, int32_t multiplier, int32_t shift);

/** The factor of a channel. */
static inline dtn_cm_factor_t dtn_cm_factor(const dtn_cm_scale_t *scale, size_t channel)
{
    size_t at = channel * scale->step;
    return (dtn_cm_factor_t){scale->multipliers[at], scale->shifts[at]};
}

/**
 * `dtn_cm_requantize`, faster for the shifts that layers have, -31 to -1.
 *
 * To round value / 2^n to nearest, a half is added before the last of the n bits goes: there it is 1. A tie below 0
 * would go up, towards 0, unless 1 is taken from negative values first. That cannot overflow: with a multiplier below
 * 2^31 the value is above -2^31.
 */
static inline int32_t dtn_cm_times(int32_t sum, dtn_cm_factor_t factor)
{
    uint32_t bits = (uint32_t)-factor.shift - 1U;
    if (bits > 30U) {
        return dtn_cm_requantize_any(sum, factor.multiplier, factor.shift);
    }
    int32_t value = (int32_t)(((int64_t)sum * factor.multiplier + (INT64_C(1) << 30)) >> 31);
    return (((value + (value >> 31)) >> bits) + 1) >> 1;
}

/** The output for a sum, which is made in unsigned arithmetic, where overflow is defined. */
static inline int8_t dtn_cm_scaled(const dtn_cm_scale_t *scale, dtn_cm_factor_t factor, uint32_t sum)
{
    int32_t value = dtn_cm_plus(dtn_cm_times((int32_t)sum, factor), scale->offset);
    return (int8_t)dtn_cm_clamp(value, scale->lo, scale->hi);
}

#endif /* DTN_SCALE_H */
