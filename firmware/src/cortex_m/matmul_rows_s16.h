/**
 * @file
 * Rows of int16 inputs by rows of int8 weights: of any length, with any factors.
 */
#pragma once

#include "inner_loops_s16.h"

/** All outputs of a product, four channels of a row at a time. */
static inline void dtn_cm_multiply_rows_s16(const dtn_cm_product_s16_t *p)
{
    const int16_t *input = p->input;
    int16_t *output = p->output;
    for (size_t row = 0; row < p->rows; row++) {
        for (size_t first = 0; first < p->channels; first += DTN_CM_ROWS) {
            const int8_t *rows[DTN_CM_ROWS];
            int64_t sums[DTN_CM_ROWS] = {0};
            dtn_cm_rows_of(p->weights, p->depth, first, p->channels, rows);
            dtn_cm_add_dots_s16(input, rows, p->depth, sums);
            for (size_t j = 0; j < DTN_CM_ROWS && first + j < p->channels; j++) {
                output[first + j] = dtn_cm_scaled_s16(&p->scale, first + j, sums[j]);
            }
        }
        input += p->input_pitch;
        output += p->output_pitch;
    }
}
