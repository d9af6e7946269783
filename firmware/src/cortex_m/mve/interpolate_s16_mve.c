#include "../table_loops_s16.h"
#include "quotients_mve.h"

/*
 * Lanes; the weights of a piece's two ends add up to 2^30. So sums are below 2^62, and quotients are in their upper
 * halves.
 */
enum { LANES = 4, WEIGHT_BITS = 30, DROP = WEIGHT_BITS + DTN_CM_TABLE_BITS - 32 };

void dtn_cm_interpolate_elements(const dtn_cm_interpolate_s16_params_t *p, const int16_t *in, const int32_t *table,
                                 int16_t *out)
{
    const int32x4_t low = vdupq_n_s32(p->low);
    const int32x4_t high = vdupq_n_s32(p->high);
    const int32_t bits = p->bits;
    const int32_t elements = p->elements;
    int32_t i = 0;
    for (; i + LANES <= elements; i += LANES) {
        const int32x4_t place = vsubq_s32(vminq_s32(vmaxq_s32(vldrhq_s32(in + i), low), high), low);
        const uint32x4_t piece = vreinterpretq_u32_s32(vshlq_r_s32(place, -bits));
        /* Bits of the piece are shifted out at the top. */
        const uint32x4_t top = vshlq_r_u32(vreinterpretq_u32_s32(place), 32 - bits);
        const int32x4_t last_weight = vreinterpretq_s32_u32(vshrq_n_u32(top, 32 - WEIGHT_BITS));
        const int32x4_t first_weight = vsubq_s32(vdupq_n_s32(INT32_C(1) << WEIGHT_BITS), last_weight);
        const int32x4_t first = vldrwq_gather_shifted_offset_s32(table, piece);
        const int32x4_t last = vldrwq_gather_shifted_offset_s32(table + 1, piece);
        const dtn_mve_numbers_t sums =
            dtn_mve_sums(dtn_mve_products(first, first_weight), dtn_mve_products(last, last_weight));
        const int32x4_t values = dtn_mve_quotients(sums, DROP);
        vstrhq_s32(out + i, vreinterpretq_s32_s16(vqmovnbq_s32(vdupq_n_s16(0), values)));
    }
    dtn_cm_interpolated_s16(p, in, table, out, i);
}
