/**
 * @file
 * How the Cortex-M operators round: twice, as spec/rounding.md says in section 6. A file that includes
 * kernels/single_rounding/single_rounding.h first is compiled with that in place of this, for both have one guard.
 */
#ifndef DTN_ROUNDING_H
#define DTN_ROUNDING_H

#include <stdint.h>

/** What a product gets before its lower 32 bits are left out: 2^30 or, with the sign of the sum, -2^30. */
static inline int32_t dtn_cm_half(uint32_t sum)
{
    return (int32_t)((sum & UINT32_C(0x80000000)) | UINT32_C(0x40000000));
}

/**
 * The upper 32 bits of a product to which that is added, in assembler: to `top`, with another register, `low`. The
 * unit is 2^30. The sum's sign is the upper half of what is added, and goes to the lower one's top.
 */
#define DTN_DSP_TOP(sum, multiplier, unit, low, top)                                                                   \
    "asr " top ", " sum ", #31\n"                                                                                      \
    "eor " low ", " unit ", " top ", lsl #31\n"                                                                        \
    "smlal " low ", " top ", " sum ", " multiplier "\n"

#endif /* DTN_ROUNDING_H */
