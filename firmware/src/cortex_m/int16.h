/**
 * @file
 * Shared by the operators for int16 activations, whose zero point is 0, with int8 weights.
 *
 * The last function is an inner loop: each kind of core has its own, as inner_loops.h says.
 */
#pragma once

#include "../kernels/requant.h"
#include "cortex_m.h"
#include "dot_product_s8.h"

/** Most products under a sum: what they add up to is below 2^38. */
#define DTN_CM_MAX_S16_PRODUCTS 65536

/** The elements of a value of int16. */
static inline uint32_t dtn_cm_s16_elements(const dtn_tensor_t *value)
{
    return value->bytes / (uint32_t)sizeof(int16_t);
}

/** True for the limits of an output. */
static inline bool dtn_cm_is_s16_range(int32_t act_min, int32_t act_max)
{
    return INT16_MIN <= act_min && act_min <= act_max && act_max <= INT16_MAX;
}

/** A number within limits. */
static inline int16_t dtn_cm_clamp_s16(int64_t value, int32_t lo, int32_t hi)
{
    return (int16_t)(value < lo ? lo : value > hi ? hi : value);
}

/**
 * clamp(value / 2^shift), rounded to nearest, ties to even; shift 1..62, the value below 2^62.
 *
 * A shift beyond 32 only needs the upper half of the 64 bits, which is less work for a 32-bit core.
 */
static inline int16_t dtn_cm_shift_to_s16(int64_t value, int32_t shift, int32_t lo, int32_t hi)
{
    if (shift <= 32) {
        return dtn_cm_clamp_s16(dtn_rne_shift(value, shift), lo, hi);
    }
    uint32_t high = (uint32_t)((uint64_t)value >> 32) + (UINT32_C(1) << (shift - 33));
    bool is_tie = (uint32_t)value == 0 && high << (64 - shift) == 0;
    uint32_t steps = (high ^ UINT32_C(1) << 31) >> (shift - 32);
    int32_t result = (int32_t)steps - (int32_t)(UINT32_C(1) << (63 - shift));
    result -= is_tie ? result & 1 : 0;
    return (int16_t)(result < lo ? lo : result > hi ? hi : result);
}

/** dot_product_s16.c: adds the products of `count` inputs with four rows of weights to the rows' sums. */
void dtn_cm_add_dots_s16(const int16_t *inputs, const int8_t *const rows[DTN_CM_ROWS], size_t count,
                         int64_t sums[DTN_CM_ROWS]);
