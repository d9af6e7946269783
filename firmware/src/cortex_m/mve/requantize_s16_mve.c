#include "../table_loops_s16.h"
#include "quotients_mve.h"

/* Lanes; values are shifted left by this, so that quotients are in the upper halves of products. */
enum { LANES = 4, MORE = 14 };

/* The quotients of four values, limited to a range that is at most that of int16 after the zero point is added. */
static inline int32x4_t requantized(const dtn_cm_requantize_t *p, int32x4_t values, int32x4_t mult, int32_t drop,
                                    int32x4_t lo, int32x4_t hi)
{
    const int32x4_t shifted = vshlq_n_s32(vsubq_n_s32(values, p->in_zp), MORE);
    const int32x4_t quotients = dtn_mve_quotients(dtn_mve_products(shifted, mult), drop);
    return vminq_s32(vmaxq_s32(vaddq_n_s32(quotients, p->out_zp), lo), hi);
}

void dtn_cm_requantize_to_s16(const dtn_cm_requantize_t *p, const int8_t *in, int16_t *out)
{
    const dtn_cm_requantize_t own = *p;
    const int32_t drop = own.shift + MORE - 32;
    const int32x4_t mult = vdupq_n_s32(own.mult);
    const int32x4_t lo = vdupq_n_s32(INT16_MIN);
    const int32x4_t hi = vdupq_n_s32(INT16_MAX);
    int32_t i = 0;
    for (; drop >= 1 && drop <= 31 && i + LANES <= own.elements; i += LANES) {
        vstrhq_s32(out + i, requantized(&own, vldrbq_s32(in + i), mult, drop, lo, hi));
    }
    dtn_cm_requantized_s16(p, in, out, i);
}

void dtn_cm_requantize_to_s8(const dtn_cm_requantize_t *p, const int16_t *in, int8_t *out)
{
    const dtn_cm_requantize_t own = *p;
    const int32_t drop = own.shift + MORE - 32;
    const int32x4_t mult = vdupq_n_s32(own.mult);
    const int32x4_t lo = vdupq_n_s32(INT8_MIN);
    const int32x4_t hi = vdupq_n_s32(INT8_MAX);
    int32_t i = 0;
    for (; drop >= 1 && drop <= 31 && i + LANES <= own.elements; i += LANES) {
        vstrbq_s32(out + i, requantized(&own, vldrhq_s32(in + i), mult, drop, lo, hi));
    }
    dtn_cm_requantized_s8(p, in, out, i);
}
