/**
 * @file
 * single_rounding.h with channels in the lanes, in place of cortex_m/mve/double_rounding_mve.h.
 */
#ifndef DTN_ROUNDING_LANES_H
#define DTN_ROUNDING_LANES_H

#include <arm_mve.h>

/** Products without their low 31 bits, to be shifted with ties up: the dropped bits cannot make a tie. */
static inline int32x4_t dtn_cm_times(int32x4_t sums, int32x4_t multipliers)
{
    return vqdmulhq_s32(sums, multipliers);
}

/** The same in assembler: values times multipliers, with a register that may be that of the multipliers. */
#define DTN_CM_TIMES(values, multipliers, free) "vqdmulh.s32 " values ", " values ", " multipliers "\n"

#endif /* DTN_ROUNDING_LANES_H */
