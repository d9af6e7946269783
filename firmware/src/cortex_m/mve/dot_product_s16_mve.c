#include "dot_product_s16_mve.h"

#include "../int16.h"

/* The sum of this many products fits 32 bits; it is a multiple of 8. */
enum { PRODUCTS = 504 };

void dtn_cm_add_dots_s16(const int16_t *inputs, const int8_t *const rows[DTN_CM_ROWS], size_t count,
                         int64_t sums[DTN_CM_ROWS])
{
    for (size_t first = 0; first < count; first += PRODUCTS) {
        const size_t own = count - first < PRODUCTS ? count - first : PRODUCTS;
        const int8_t *const parts[] = {rows[0] + first, rows[1] + first, rows[2] + first, rows[3] + first};
        const int32x4_t four = dtn_mve_row_sums_s16(inputs + first, parts, own);
        sums[0] += vgetq_lane_s32(four, 0);
        sums[1] += vgetq_lane_s32(four, 1);
        sums[2] += vgetq_lane_s32(four, 2);
        sums[3] += vgetq_lane_s32(four, 3);
    }
}
