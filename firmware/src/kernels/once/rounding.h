/**
 * @file
 * How the NPU's kernels round: once (spec/rounding.md, section 1). The files of this directory are the inner work of
 * the Cortex-M operators, compiled with this in place of cortex_m/twice.h and under names of its own.
 *
 * That inner work rounds ties up, kernels round them to even. Where a tie can be, `dtn_once_scale` (once.h) makes a
 * factor one of those that `dtn_cm_scaled_rarely` computes.
 */
#ifndef DTN_ROUNDING_H
#define DTN_ROUNDING_H

#include <stdint.h>

/* What inner.h declares. */
#define dtn_cm_multiply dtn_once_multiply
#define dtn_cm_convolve dtn_once_convolve
#define dtn_cm_convolve_depthwise dtn_once_convolve_depthwise
#define dtn_cm_scaled_rarely dtn_once_scaled_rarely
/* What files of a directory have of each other. */
#define dtn_cm_make_pairs dtn_once_make_pairs
#define dtn_cm_add_pairs dtn_once_add_pairs
#define dtn_cm_store_pairs dtn_once_store_pairs
#define dtn_cm_multiply_pairs dtn_once_multiply_pairs
#define dtn_dsp_make_block dtn_once_make_block
#define dtn_dsp_unpack_rest dtn_once_unpack_rest
#define dtn_dsp_add_pair dtn_once_add_pair
#define dtn_dsp_store_pair dtn_once_store_pair
#define dtn_dsp_multiply_pair dtn_once_multiply_pair
#define dtn_cm_three_rows dtn_once_three_rows
#define dtn_cm_one_row dtn_once_one_row
#define dtn_cm_short_rows dtn_once_short_rows

/** What a product gets before its lower 32 bits are left out: nothing, for it is rounded afterwards. */
static inline int32_t dtn_cm_half(uint32_t sum)
{
    (void)sum;
    return 0;
}

/** The upper 32 bits of a product, in assembler: to `top`, with another register, `low`. */
#define DTN_DSP_TOP(sum, multiplier, unit, low, top) "smull " low ", " top ", " sum ", " multiplier "\n"

#endif /* DTN_ROUNDING_H */
