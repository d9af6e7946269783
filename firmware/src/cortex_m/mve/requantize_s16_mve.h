/**
 * @file
 * From 32-bit sums to int16 outputs, as inner_loops_s16.h has it, with channels in the lanes.
 *
 * Multipliers are below 2^22 and shifts at most 40. So both the multiplier and the bias can have e = min(9, 40 - shift)
 * bits more: with t = shift + e the value is sum * (multiplier * 2^e) + bias * 2^(t - 10), which is below 2^63, and it
 * is divided by 2^t. For shifts from 24 on t is 33 to 40, so that the quotient is in the upper 32 bits of the value.
 * It is rounded there with ties up. There is a tie if the lower 32 bits are 0 and only the first bit behind the
 * quotient is not; then the result's last bit is cleared.
 */
#pragma once

#include <arm_mve.h>

#include "../inner_loops_s16.h"

/** Least shift that the functions here take. */
enum { DTN_MVE_LEAST_SHIFT_S16 = 24 };

/** The factors of four channels. */
typedef struct {
    int32x4_t multipliers;
    int32x4_t low;    /**< of the bias: lower 32 bits */
    int32x4_t high;   /**< upper 32 bits */
    int32x4_t shifts; /**< of the upper 32 bits of a value to the quotient: 32 - t */
    int32x4_t tops;   /**< to the bits behind the quotient, as the highest: 64 - t */
} dtn_mve_factors_s16_t;

static inline dtn_mve_factors_s16_t dtn_mve_factors_s16(int32x4_t multipliers, int32x4_t shifts, int32x4_t bias)
{
    const int32x4_t more = vminq_s32(vsubq_s32(vdupq_n_s32(40), shifts), vdupq_n_s32(9));
    const int32x4_t total = vaddq_s32(shifts, more);
    const int32x4_t of_bias = vsubq_n_s32(total, DTN_CM_S16_BIAS_BITS);
    return (dtn_mve_factors_s16_t){
        vshlq_s32(multipliers, more),      vshlq_s32(bias, of_bias),          vshlq_s32(bias, vsubq_n_s32(of_bias, 32)),
        vsubq_s32(vdupq_n_s32(32), total), vsubq_s32(vdupq_n_s32(64), total),
    };
}

/** The bits behind a quotient at a tie. */
#define DTN_MVE_HALF INT32_MIN

/**
 * Adds the bias to the lower half and the upper half of four products, with its carry. In assembler: 1 is in the
 * general register `one`.
 */
#define DTN_MVE_ADD_BIAS_S16(low, high, bias_low, bias_high, one)                                                      \
    "vadd.i32 " low ", " low ", " bias_low "\n"                                                                        \
    "vadd.i32 " high ", " high ", " bias_high "\n"                                                                     \
    "vpt.u32 hi, " bias_low ", " low "\n"                                                                              \
    "vaddt.i32 " high ", " high ", " one "\n"

/** The quotients, in `high`, of values with these halves; DTN_MVE_HALF is in the general register `half`. */
#define DTN_MVE_ROUND_S16(low, high, shifts, tops, free, half)                                                         \
    "vshl.s32 " free ", " high ", " tops "\n"                                                                          \
    "vrshl.s32 " high ", " high ", " shifts "\n"                                                                       \
    "vptt.i32 eq, " free ", " half "\n"                                                                                \
    "vcmpt.i32 eq, " low ", zr\n"                                                                                      \
    "vbict.i32 " high ", #1\n"
