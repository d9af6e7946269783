#include "../dot_product_s8.h"

void dtn_cm_add_dots_s8(const int8_t *x, int32_t offset, const int8_t *const rows[DTN_CM_ROWS], size_t count,
                        uint32_t sums[DTN_CM_ROWS])
{
    dtn_cm_add_dots(x, offset, rows, 0, count, sums);
}
