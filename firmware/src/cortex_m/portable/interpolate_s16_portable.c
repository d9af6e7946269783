#include "../table_loops_s16.h"

void dtn_cm_interpolate_elements(const dtn_cm_interpolate_s16_params_t *p, const int16_t *in, const int32_t *table,
                                 int16_t *out)
{
    dtn_cm_interpolated_s16(p, in, table, out, 0);
}
