/**
 * @file
 * How the Cortex-M operators round: twice, as spec/rounding.md says in section 6. A file that includes
 * kernels/single_rounding/single_rounding.h first is compiled with that in place of this, for both have one guard.
 */
#ifndef DTN_ROUNDING_H
#define DTN_ROUNDING_H

#include <stdint.h>

/** The number added to a product before its lower 32 bits are dropped: 2^30, or -2^30 for a negative sum. */
static inline int32_t dtn_cm_half(uint32_t sum)
{
    return (int32_t)((sum & UINT32_C(0x80000000)) | UINT32_C(0x40000000));
}

/**
 * The upper 32 bits of a product plus that number, in assembler: into `top`, with another register, `low`. The unit is
 * 2^30. The sum's sign is the upper half of the added number, and the top bit of its lower half.
 */
#define DTN_DSP_TOP(sum, multiplier, unit, low, top)                                                                   \
    "asr " top ", " sum ", #31\n"                                                                                      \
    "eor " low ", " unit ", " top ", lsl #31\n"                                                                        \
    "smlal " low ", " top ", " sum ", " multiplier "\n"

#endif /* DTN_ROUNDING_H */
