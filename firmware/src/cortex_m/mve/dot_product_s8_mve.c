#include <arm_mve.h>

#include "../dot_product_s8.h"

void dtn_cm_add_dots_s8(const int8_t *x, int32_t offset, const int8_t *const rows[DTN_CM_ROWS], size_t count,
                        uint32_t sums[DTN_CM_ROWS])
{
    int32_t a = 0;
    int32_t b = 0;
    int32_t c = 0;
    int32_t d = 0;
    for (size_t k = 0; k < count; k += 8) {
        mve_pred16_t lanes = vctp16q((uint32_t)(count - k));
        /* Lanes beyond the end have weights of 0. */
        int16x8_t input = vaddq_n_s16(vldrbq_z_s16(x + k, lanes), (int16_t)offset);
        a = vmladavaq_s16(a, input, vldrbq_z_s16(rows[0] + k, lanes));
        b = vmladavaq_s16(b, input, vldrbq_z_s16(rows[1] + k, lanes));
        c = vmladavaq_s16(c, input, vldrbq_z_s16(rows[2] + k, lanes));
        d = vmladavaq_s16(d, input, vldrbq_z_s16(rows[3] + k, lanes));
    }
    sums[0] += (uint32_t)a;
    sums[1] += (uint32_t)b;
    sums[2] += (uint32_t)c;
    sums[3] += (uint32_t)d;
}
