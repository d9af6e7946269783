#include <arm_mve.h>

#include "../int16.h"

/* The sum of this many products fits 32 bits. */
enum { PRODUCTS = 256 };

void dtn_cm_add_dots_s16(const int16_t *inputs, const int8_t *const rows[DTN_CM_ROWS], size_t count,
                         int64_t sums[DTN_CM_ROWS])
{
    for (size_t first = 0; first < count; first += PRODUCTS) {
        size_t end = first + PRODUCTS < count ? first + PRODUCTS : count;
        int32_t a = 0;
        int32_t b = 0;
        int32_t c = 0;
        int32_t d = 0;
        for (size_t k = first; k < end; k += 8) {
            mve_pred16_t lanes = vctp16q((uint32_t)(end - k));
            int16x8_t input = vldrhq_z_s16(inputs + k, lanes);
            a = vmladavaq_s16(a, input, vldrbq_z_s16(rows[0] + k, lanes));
            b = vmladavaq_s16(b, input, vldrbq_z_s16(rows[1] + k, lanes));
            c = vmladavaq_s16(c, input, vldrbq_z_s16(rows[2] + k, lanes));
            d = vmladavaq_s16(d, input, vldrbq_z_s16(rows[3] + k, lanes));
        }
        sums[0] += a;
        sums[1] += b;
        sums[2] += c;
        sums[3] += d;
    }
}
