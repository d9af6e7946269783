/**
 * @file
 * The arithmetic of the kernels, once: rounding to nearest with ties to even, then saturation. spec/rounding.md is the
 * contract, `deuteron.numerics` the Python twin.
 */
#pragma once

#include <stdint.h>

/** A requantization row: the factor multiplier / 2^shift, multiplier 0..2^31-1, shift 1..62. */
typedef struct {
    int32_t multiplier;
    int32_t shift;
} dtn_requant_row_t;

/**
 * value / 2^shift, rounded to nearest, ties to even; |value| <= 2^62, shift 1..62.
 *
 * Adding 2^63 makes every step unsigned, where shifts and sums are defined. 2^63 / 2^shift is even: the parity that
 * decides a tie stays, and the quotient is exactly that much too large.
 */
static inline int64_t dtn_rne_shift(int64_t value, int32_t shift)
{
    uint64_t biased = (uint64_t)value + (UINT64_C(1) << 63);
    uint64_t odd = biased >> shift & 1U;
    uint64_t rounded = (biased + (UINT64_C(1) << (shift - 1)) - 1U + odd) >> shift;
    return (int64_t)rounded - (int64_t)(UINT64_C(1) << (63 - shift));
}

/** numerator / denominator, rounded to nearest, ties to even; 0 < denominator <= 2^62. */
static inline uint64_t dtn_rne_divide(uint64_t numerator, uint64_t denominator)
{
    uint64_t quotient = numerator / denominator;
    uint64_t twice = 2U * (numerator % denominator);
    return quotient + (twice > denominator || (twice == denominator && (quotient & 1U) == 1U) ? 1U : 0U);
}

/** As dtn_rne_divide, for a numerator of either sign: to round to nearest, ties to even, is to round magnitudes. */
static inline int64_t dtn_rne_divide_signed(int64_t numerator, uint64_t denominator)
{
    uint64_t magnitude = numerator < 0 ? 0U - (uint64_t)numerator : (uint64_t)numerator;
    int64_t quotient = (int64_t)dtn_rne_divide(magnitude, denominator);
    return numerator < 0 ? -quotient : quotient;
}

/** `value` held within lo..hi. */
static inline int8_t dtn_clamp_s8(int64_t value, int32_t lo, int32_t hi)
{
    return (int8_t)(value < lo ? lo : value > hi ? hi : value);
}

/** An accumulator, summed in unsigned arithmetic where overflow is defined, as a signed number. */
static inline int32_t dtn_as_signed(uint32_t accumulator)
{
    return (int32_t)accumulator;
}

/** clamp(zero_point + round(accumulator * row)). */
static inline int8_t dtn_requant_s8(int32_t accumulator, dtn_requant_row_t row, int32_t zero_point, int32_t lo,
                                    int32_t hi)
{
    return dtn_clamp_s8(zero_point + dtn_rne_shift((int64_t)accumulator * row.multiplier, row.shift), lo, hi);
}

/** clamp(zero_point + round(sum * multiplier / divisor)); 0 < divisor <= 2^62. */
static inline int8_t dtn_mean_s8(int32_t sum, int32_t multiplier, uint64_t divisor, int32_t zero_point, int32_t lo,
                                 int32_t hi)
{
    return dtn_clamp_s8(zero_point + dtn_rne_divide_signed((int64_t)sum * multiplier, divisor), lo, hi);
}
