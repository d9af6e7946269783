/**
 * @file
 * The inner loops over a row of two int16 operands. Each kind of core has its own, as inner_loops.h says; all give the
 * same bytes.
 */
#pragma once

#include "broadcast_binary_s16.h"

/** add_s16.c: the sums of a row, as `broadcast_add_s16` has them. */
void dtn_cm_add_s16(const dtn_cm_broadcast_add_s16_params_t *p, const dtn_cm_s16_rows_t *row);

/** mul_s16.c: the products of a row, as `broadcast_mul_s16` has them. */
void dtn_cm_mul_s16(const dtn_cm_broadcast_mul_s16_params_t *p, const dtn_cm_s16_rows_t *row);

/** Sums from element `first` on, for any factors. */
static inline void dtn_cm_sums_s16(const dtn_cm_broadcast_add_s16_params_t *p, const dtn_cm_s16_rows_t *row,
                                   size_t first)
{
    for (size_t i = first; i < row->length; i++) {
        int64_t sum = (int64_t)row->a[i * row->a_step] * p->a_mult + (int64_t)row->b[i * row->b_step] * p->b_mult;
        row->out[i] = dtn_cm_shift_to_s16(sum, p->shift, p->act_min, p->act_max);
    }
}

/** Products from element `first` on, for any factor. */
static inline void dtn_cm_products_s16(const dtn_cm_broadcast_mul_s16_params_t *p, const dtn_cm_s16_rows_t *row,
                                       size_t first)
{
    for (size_t i = first; i < row->length; i++) {
        int32_t product = row->a[i * row->a_step] * row->b[i * row->b_step];
        row->out[i] = dtn_cm_shift_to_s16((int64_t)product * p->mult, p->shift, p->act_min, p->act_max);
    }
}
