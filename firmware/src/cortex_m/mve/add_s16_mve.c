#include "../binary_loops_s16.h"
#include "quotients_mve.h"

/* Lanes; elements are shifted left by this, so that quotients are in the upper halves of sums. */
enum { LANES = 4, MORE = 14 };

void dtn_cm_add_s16(const dtn_cm_broadcast_add_s16_params_t *p, const dtn_cm_s16_rows_t *row)
{
    const int32_t drop = p->shift + MORE - 32;
    size_t i = 0;
    if (row->a_step == 1 && row->b_step == 1 && drop >= 1 && drop <= 31) {
        const int16_t *a = row->a;
        const int16_t *b = row->b;
        int16_t *out = row->out;
        const int32x4_t a_mult = vdupq_n_s32(p->a_mult);
        const int32x4_t b_mult = vdupq_n_s32(p->b_mult);
        const int32x4_t lo = vdupq_n_s32(p->act_min);
        const int32x4_t hi = vdupq_n_s32(p->act_max);
        for (; i + LANES <= row->length; i += LANES) {
            const dtn_mve_numbers_t sums = dtn_mve_sums(dtn_mve_products(vshlq_n_s32(vldrhq_s32(a + i), MORE), a_mult),
                                                        dtn_mve_products(vshlq_n_s32(vldrhq_s32(b + i), MORE), b_mult));
            vstrhq_s32(out + i, vminq_s32(vmaxq_s32(dtn_mve_quotients(sums, drop), lo), hi));
        }
    }
    dtn_cm_sums_s16(p, row, i);
}
