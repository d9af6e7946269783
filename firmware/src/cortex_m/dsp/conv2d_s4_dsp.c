/* The windows of conv2d_s8_dsp.c by packed weights of four bits. Compiled for both forms of weights, since an image
 * whose weights all have one form has no code for the other. */
#include "../inner_loops.h"
#include "matmul_row_pairs_s4_dsp.h"

#define dtn_cm_convolve dtn_cm_convolve_s4
#define dtn_dsp_make_block dtn_dsp_make_block_s4
#define dtn_dsp_multiply_pair dtn_dsp_multiply_pair_s4

#include "conv2d_s8_dsp.c"
