#include "../binary_loops_s16.h"
#include "quotients_mve.h"

enum { LANES = 4 };

void dtn_cm_mul_s16(const dtn_cm_broadcast_mul_s16_params_t *p, const dtn_cm_s16_rows_t *row)
{
    const int32_t drop = p->shift - 32;
    size_t i = 0;
    if (row->a_step == 1 && row->b_step <= 1 && drop >= 1) {
        const int16_t *a = row->a;
        const int16_t *b = row->b;
        int16_t *out = row->out;
        const bool is_shared = row->b_step == 0;
        const int32x4_t mult = vdupq_n_s32(p->mult);
        const int32x4_t lo = vdupq_n_s32(p->act_min);
        const int32x4_t hi = vdupq_n_s32(p->act_max);
        const int32x4_t repeated = vdupq_n_s32(is_shared ? (int32_t)*b : 0);
        for (; i + LANES <= row->length; i += LANES) {
            const int32x4_t other = is_shared ? repeated : vldrhq_s32(b + i);
            const dtn_mve_numbers_t products = dtn_mve_products(vmulq_s32(vldrhq_s32(a + i), other), mult);
            vstrhq_s32(out + i, vminq_s32(vmaxq_s32(dtn_mve_quotients(products, drop), lo), hi));
        }
    }
    dtn_cm_products_s16(p, row, i);
}
