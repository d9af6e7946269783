/* Not compiled with conv2d_s8_mve.c: an image whose weights all have one form has no code for the other. */
#include "../inner_loops.h"
#include "../packed_weights.h"
#include "matmul_blocks_mve.h"

#define dtn_cm_one_row dtn_cm_one_row_s4
#define dtn_cm_three_rows dtn_cm_three_rows_s4
#define dtn_cm_short_rows dtn_cm_short_rows_s4
#define dtn_cm_padded_rows dtn_cm_padded_rows_s4
#define DTN_CM_ROWS_OF_BLOCK (DTN_CM_BLOCK / DTN_CM_PACKED)

#include "conv2d_windows_mve.h"

/* The sums of kernels have the input's offset: groups have a bias and none of it. */
bool dtn_cm_convolve_s4(const dtn_cm_group_t *group, void *scratch, size_t bytes)
{
    return dtn_cm_convolve_windows(group, scratch, bytes);
}
