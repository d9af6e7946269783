/**
 * @file
 * double_rounding.h with channels in the lanes.
 */
#ifndef DTN_ROUNDING_LANES_H
#define DTN_ROUNDING_LANES_H

#include <arm_mve.h>

/**
 * Products, of which 31 bits are left out, to be shifted with ties up.
 *
 * They are rounded to a multiple of 2^31, a tie up. To round by n bits with ties away from zero, negative values get 1
 * less before half of 2^n is added, which `vrshl` does. Nothing overflows: multipliers are 0 or more, and so the
 * rounded product is above -2^31.
 */
static inline int32x4_t dtn_cm_times(int32x4_t sums, int32x4_t multipliers)
{
    int32x4_t values = vqrdmulhq_s32(sums, multipliers);
    return vaddq_s32(values, vshrq_n_s32(values, 31));
}

/** The same in assembler: values times multipliers, with a register that may be that of the multipliers. */
#define DTN_CM_TIMES(values, multipliers, free)                                                                        \
    "vqrdmulh.s32 " values ", " values ", " multipliers "\n"                                                           \
    "vshr.s32 " free ", " values ", #31\n"                                                                             \
    "vadd.i32 " values ", " values ", " free "\n"

#endif /* DTN_ROUNDING_LANES_H */
