/**
 * @file
 * Converts 32-bit sums to int16 outputs, with channels in the lanes: inner_loops_s16.h has the arithmetic.
 *
 * The upper 32 bits of a value are rounded with ties up. There is a tie if the lower 32 bits are 0 and only the first
 * bit behind the quotient is set. Then the quotient's last bit is cleared.
 */
#pragma once

#include <arm_mve.h>

#include "../inner_loops_s16.h"
#include "predicate_clobber_mve.h"

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
