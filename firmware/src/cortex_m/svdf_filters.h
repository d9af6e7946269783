/**
 * @file
 * Inner loops of filters over time (SVDF), and factors of whole rows of sums. Each kind of core has its own, as
 * inner_loops.h says; all give the same bytes.
 */
#pragma once

#include "cortex_m.h"

/** A factor as `dtn_cm_requantize` has it, and the limits of its products. */
typedef struct {
    int32_t multiplier;
    int32_t shift; /**< -31..30 */
    int32_t offset;
    int32_t lo;
    int32_t hi;
} dtn_cm_sums_scale_t;

/** svdf_filters.c: scales sums in place: the factor, then the offset, whose addition keeps the low 32 bits, then
 * limits. */
void dtn_cm_scale_sums(const dtn_cm_sums_scale_t *scale, int32_t *sums, size_t count);

/**
 * svdf_filters.c: moves each of `filters` pasts of `steps` elements by one, and puts the newest behind it. Then
 * `newest` has the sums over time of past * times, of int8 (past - zero_point) * times; they keep their low 32 bits.
 */
void dtn_cm_step_filters_s16(int16_t *past, const int16_t *times, size_t steps, int32_t *newest, size_t filters);
void dtn_cm_step_filters_s8(int8_t *past, const int8_t *times, size_t steps, int32_t zero_point, int32_t *newest,
                            size_t filters);

/** `dtn_cm_scale_sums` for any factor. */
static inline void dtn_cm_scale_sums_general(const dtn_cm_sums_scale_t *scale, int32_t *sums, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int32_t scaled = dtn_cm_requantize(sums[i], scale->multiplier, scale->shift);
        sums[i] = dtn_cm_clamp(dtn_cm_plus(scaled, scale->offset), scale->lo, scale->hi);
    }
}
