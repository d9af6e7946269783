/**
 * @file
 * From the 32-bit sums of a layer to its int8 outputs.
 */
#pragma once

#include <stddef.h>

#include "cortex_m.h"
#include "double_rounding.h"

/** The factors of the channels, and zero point and limits of the output. */
typedef struct {
    const int32_t *multipliers; /**< 0 or more */
    const int32_t *shifts;
    size_t step;           /**< from one channel's factor to the next: 0 where all share one */
    int32_t largest_shift; /**< of all channels */
    int32_t offset;
    int32_t lo;
    int32_t hi;
} dtn_cm_scale_t;

/** The factor multiplier * 2^-(31 + 2 + drop), as the fewest steps need it. */
typedef struct {
    int32_t multiplier;
    uint32_t drop;
} dtn_cm_factor_t;

/** Largest `drop` of the usual shifts, -31 to -2. */
#define DTN_CM_MOST_DROP 29U

/** True for a factor that can be computed with. */
static inline bool dtn_cm_is_factor(int32_t multiplier, int32_t shift)
{
    return multiplier >= 0 && dtn_cm_is_shift(shift);
}

/** True for factors that can be computed with: those of channels are constants, which no check has read. */
bool dtn_cm_are_factors(dtn_cm_scale_t *scale, size_t channels);

/** `dtn_cm_scaled` for the factors that few layers have. */
int8_t dtn_cm_scaled_general(const dtn_cm_scale_t *scale, const dtn_cm_factor_t *factor, uint32_t sum);

/** The factor of a channel. */
static inline dtn_cm_factor_t dtn_cm_factor(const dtn_cm_scale_t *scale, size_t channel)
{
    size_t at = channel * scale->step;
    return (dtn_cm_factor_t){scale->multipliers[at], (uint32_t)-scale->shifts[at] - 2U};
}

/**
 * The output for a sum, which is made in unsigned arithmetic, where overflow is defined.
 *
 * `dtn_cm_requantize` rounds the product to a multiple of 2^31, a tie up, and this, by n = 2 + drop bits, a tie away
 * from zero. Both in one: 2^30 is added to the product for the first. For the second half of 2^n is added, and below
 * zero 1 less: that 1 is 2^31 here and makes the 2^30 its negative. Products that are not, but that the first rounds to
 * 0, become -1 so: with half of 2^n added that is 0 as well. The rest is a shift by all but the last of the n bits, the
 * addition of the half, which is 1 by then, and a shift by 1. The output's offset, doubled, is added with the 1.
 */
static inline int8_t dtn_cm_scaled(const dtn_cm_scale_t *scale, const dtn_cm_factor_t *factor, uint32_t sum)
{
    if (factor->drop > DTN_CM_MOST_DROP) {
        return dtn_cm_scaled_general(scale, factor, sum);
    }
    int64_t product = (int64_t)(int32_t)sum * factor->multiplier + dtn_cm_half(sum);
    int32_t value = (((int32_t)(product >> 32) >> factor->drop) + 1 + 2 * scale->offset) >> 1;
    return (int8_t)dtn_cm_clamp(value, scale->lo, scale->hi);
}
