#include "../binary_loops_s16.h"

void dtn_cm_add_s16(const dtn_cm_broadcast_add_s16_params_t *p, const dtn_cm_s16_rows_t *row)
{
    dtn_cm_sums_s16(p, row, 0);
}
