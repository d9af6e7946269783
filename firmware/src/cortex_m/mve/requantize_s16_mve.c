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

/* Both directions; `rest` makes the last values, and all if the shift is out of range. */
#define REQUANTIZE(name, from_t, to_t, least, largest, load, store, rest)                                              \
    void name(const dtn_cm_requantize_t *p, const from_t *in, to_t *out)                                               \
    {                                                                                                                  \
        const dtn_cm_requantize_t own = *p;                                                                            \
        const int32_t drop = own.shift + MORE - 32;                                                                    \
        const int32x4_t mult = vdupq_n_s32(own.mult);                                                                  \
        const int32x4_t lo = vdupq_n_s32(least);                                                                       \
        const int32x4_t hi = vdupq_n_s32(largest);                                                                     \
        int32_t i = 0;                                                                                                 \
        for (; drop >= 1 && drop <= 31 && i + LANES <= own.elements; i += LANES) {                                     \
            store(out + i, requantized(&own, load(in + i), mult, drop, lo, hi));                                       \
        }                                                                                                              \
        rest(p, in, out, i);                                                                                           \
    }
REQUANTIZE(dtn_cm_requantize_to_s16, int8_t, int16_t, INT16_MIN, INT16_MAX, vldrbq_s32, vstrhq_s32,
           dtn_cm_requantized_s16)
REQUANTIZE(dtn_cm_requantize_to_s8, int16_t, int8_t, INT8_MIN, INT8_MAX, vldrhq_s32, vstrbq_s32, dtn_cm_requantized_s8)
