/**
 * @file
 * How the NPU's kernels round: once (spec/rounding.md, section 1). The files of this directory are the inner loops of
 * the Cortex-M operators, compiled with this in place of cortex_m/double_rounding.h, under other names.
 *
 * These inner loops round ties up, and kernels round them to even. Where a tie can be, `dtn_sr_scale`
 * (single_rounding_factors.h) makes a factor one of those that `dtn_cm_scaled_general` computes.
 */
#ifndef DTN_ROUNDING_H
#define DTN_ROUNDING_H

#include <stdint.h>

/* Functions of inner_loops.h. */
#define dtn_cm_multiply dtn_sr_multiply
#define dtn_cm_convolve dtn_sr_convolve
#define dtn_cm_convolve_depthwise dtn_sr_convolve_depthwise
#define dtn_cm_scaled_general dtn_sr_scaled_general
/* Functions shared by files of a directory. */
#define dtn_cm_make_pairs dtn_sr_make_pairs
#define dtn_cm_add_pairs dtn_sr_add_pairs
#define dtn_cm_store_pairs dtn_sr_store_pairs
#define dtn_cm_multiply_pairs dtn_sr_multiply_pairs
#define dtn_dsp_make_block dtn_sr_make_block
#define dtn_dsp_unpack_rest dtn_sr_unpack_rest
#define dtn_dsp_add_pair dtn_sr_add_pair
#define dtn_dsp_store_pair dtn_sr_store_pair
#define dtn_dsp_multiply_pair dtn_sr_multiply_pair
#define dtn_cm_three_rows dtn_sr_three_rows
#define dtn_cm_one_row dtn_sr_one_row
#define dtn_cm_short_rows dtn_sr_short_rows

/** The number added to a product before its lower 32 bits are dropped: 0, because it is rounded afterwards. */
static inline int32_t dtn_cm_half(uint32_t sum)
{
    (void)sum;
    return 0;
}

/** The upper 32 bits of a product, in assembler: to `top`, with another register, `low`. */
#define DTN_DSP_TOP(sum, multiplier, unit, low, top) "smull " low ", " top ", " sum ", " multiplier "\n"

#endif /* DTN_ROUNDING_H */
