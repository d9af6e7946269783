/**
 * @file
 * Quotients of numbers of 64 bits by powers of two, to nearest, ties to even; the numbers are in the lanes, as halves.
 */
#pragma once

#include <arm_mve.h>

/** Numbers of 64 bits. */
typedef struct {
    uint32x4_t low;
    int32x4_t high;
} dtn_mve_numbers_t;

/** Products with a number. */
static inline dtn_mve_numbers_t dtn_mve_products(int32x4_t values, int32x4_t factor)
{
    return (dtn_mve_numbers_t){vreinterpretq_u32_s32(vmulq_s32(values, factor)), vmulhq_s32(values, factor)};
}

/** The sums of numbers, which fit 64 bits. */
static inline dtn_mve_numbers_t dtn_mve_sums(dtn_mve_numbers_t a, dtn_mve_numbers_t b)
{
    const uint32x4_t low = vaddq_u32(a.low, b.low);
    const int32x4_t high = vaddq_s32(a.high, b.high);
    return (dtn_mve_numbers_t){low, vaddq_m_n_s32(high, high, 1, vcmphiq_u32(a.low, low))};
}

/**
 * Numbers below 2^62 divided by 2^(32 + drop), drop 1..31. With half of that added, there was a tie if no bit is set
 * behind the quotient; its last bit is cleared then.
 */
static inline int32x4_t dtn_mve_quotients(dtn_mve_numbers_t numbers, int32_t drop)
{
    const int32x4_t high = vaddq_n_s32(numbers.high, INT32_C(1) << (drop - 1));
    mve_pred16_t ties = vcmpeqq_n_s32(vshlq_r_s32(high, 32 - drop), 0);
    ties = vcmpeqq_m_n_u32(numbers.low, 0, ties);
    return vbicq_m_n_s32(vshlq_r_s32(high, -drop), 1, ties);
}
