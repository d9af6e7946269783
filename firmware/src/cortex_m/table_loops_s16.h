/**
 * @file
 * The inner loops from one int16 value to one output. Each kind of core has its own, as inner_loops.h says; all give
 * the same bytes.
 */
#pragma once

#include "../kernels/requant.h"
#include "int16.h"
#include "requantize.h"

/** Bits behind the point that entries of a table have. */
enum { DTN_CM_TABLE_BITS = 8 };

/** interpolate_s16.c: values of the function that `interpolate_s16` has. */
void dtn_cm_interpolate_elements(const dtn_cm_interpolate_s16_params_t *p, const int16_t *in, const int32_t *table,
                                 int16_t *out);

/** requantize_s16.c: int8 elements as int16, and int16 elements as int8. */
void dtn_cm_requantize_to_s16(const dtn_cm_requantize_t *p, const int8_t *in, int16_t *out);
void dtn_cm_requantize_to_s8(const dtn_cm_requantize_t *p, const int16_t *in, int8_t *out);

/** Elements from `first` on, for any factors. */
static inline void dtn_cm_interpolated_s16(const dtn_cm_interpolate_s16_params_t *p, const int16_t *in,
                                           const int32_t *table, int16_t *out, int32_t first)
{
    const int32_t width = 1 << p->bits;
    for (int32_t i = first; i < p->elements; i++) {
        int32_t place = dtn_cm_clamp(in[i], p->low, p->high) - p->low;
        const int32_t *entry = table + (place >> p->bits);
        int64_t change = (int64_t)entry[1] - entry[0];
        int64_t value = (int64_t)entry[0] * width + change * (place & (width - 1));
        out[i] = dtn_cm_clamp_s16(dtn_rne_shift(value, p->bits + DTN_CM_TABLE_BITS), INT16_MIN, INT16_MAX);
    }
}

static inline void dtn_cm_requantized_s16(const dtn_cm_requantize_t *p, const int8_t *in, int16_t *out, int32_t first)
{
    const dtn_cm_requantize_t own = *p; /* which no store to the output can change */
    for (int32_t i = first; i < own.elements; i++) {
        out[i] = dtn_cm_clamp_s16(dtn_cm_requantized(&own, in[i]), INT16_MIN, INT16_MAX);
    }
}

static inline void dtn_cm_requantized_s8(const dtn_cm_requantize_t *p, const int16_t *in, int8_t *out, int32_t first)
{
    const dtn_cm_requantize_t own = *p; /* which no store to the output can change */
    for (int32_t i = first; i < own.elements; i++) {
        out[i] = dtn_clamp_s8(dtn_cm_requantized(&own, in[i]), INT8_MIN, INT8_MAX);
    }
}
