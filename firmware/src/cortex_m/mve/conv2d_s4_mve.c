/* The windows of conv2d_s8_mve.c by packed weights of four bits. Compiled for both forms of weights, since an image
 * whose weights all have one form has no code for the other. */
#include "../inner_loops.h"
#include "../packed_weights.h"
#include "matmul_blocks_mve.h"

#define dtn_cm_convolve dtn_cm_convolve_s4
#define dtn_cm_one_row dtn_cm_one_row_s4
#define dtn_cm_three_rows dtn_cm_three_rows_s4
#define dtn_cm_short_rows dtn_cm_short_rows_s4
#define DTN_CM_ROWS_OF_BLOCK (DTN_CM_BLOCK / DTN_CM_PACKED)

#include "conv2d_s8_mve.c"
