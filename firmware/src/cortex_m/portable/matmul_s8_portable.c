#include "../dot_product_s8.h"
#include "../inner_loops.h"
#include "matmul_row_pairs_s8_portable.h"

/* So many channels keep their sums until the next part of the rows, so that each part is paired once for all of them.
 */
enum { BLOCK = 16 };

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The term of the weights' offset, which every channel of a row adds. */
static uint32_t shared(const dtn_cm_product_t *p, size_t row)
{
    if (p->weight_offset == 0) {
        return 0;
    }
    const int8_t *input = p->input + row * p->input_pitch;
    int32_t sum = (int32_t)p->depth * p->input_offset;
    for (size_t k = 0; k < p->depth; k++) {
        sum += input[k];
    }
    return (uint32_t)(sum * p->weight_offset);
}

static uint32_t bias(const dtn_cm_product_t *p, size_t channel)
{
    return p->bias == NULL ? 0U : (uint32_t)p->bias[channel];
}

/* All channels of two rows that are too long for one buffer of pairs. */
static void two_long_rows(const dtn_cm_product_t *p, const dtn_cm_pair_job_t *job, const int8_t *x, const int8_t *y,
                          int32_t pairs[DTN_CM_PAIRS])
{
    for (size_t first = 0; first < p->channels; first += BLOCK) {
        dtn_cm_pair_sums_t sums[BLOCK / 2] = {{0, 0, 0, 0}};
        size_t end = min_size(first + BLOCK, p->channels);
        for (size_t at = 0; at < p->depth; at += DTN_CM_PAIRS) {
            size_t count = min_size(p->depth - at, DTN_CM_PAIRS);
            dtn_cm_make_pairs(x + at, y + at, p->input_offset, count, pairs);
            for (size_t channel = first; channel < end; channel += 2) {
                /* A last odd channel is paired with itself. */
                const int8_t *w = p->weights + channel * p->depth + at;
                const int8_t *v = channel + 1 < end ? w + p->depth : w;
                dtn_cm_add_pairs(pairs, w, v, count, &sums[(channel - first) / 2]);
            }
        }
        dtn_cm_store_pairs(job, first, end, sums);
    }
}

/* All channels of two rows, which may be the same. */
static void two_rows(const dtn_cm_product_t *p, size_t row, size_t other)
{
    int32_t pairs[DTN_CM_PAIRS];
    const int8_t *x = p->input + row * p->input_pitch;
    const int8_t *y = p->input + other * p->input_pitch;
    dtn_cm_pair_job_t job = {
        .weights = p->weights,
        .bias = p->bias,
        .depth = p->depth,
        .channels = p->channels,
        .scale = &p->scale,
        .x_start = shared(p, row),
        .y_start = shared(p, other),
        .x_output = p->output + row * p->output_pitch,
        .y_output = p->output + other * p->output_pitch,
    };
    if (p->depth > DTN_CM_PAIRS) {
        two_long_rows(p, &job, x, y, pairs);
    } else {
        dtn_cm_make_pairs(x, y, p->input_offset, p->depth, pairs);
        dtn_cm_multiply_pairs(&job, pairs);
    }
}

/* One row makes no pairs. */
static void one_row(const dtn_cm_product_t *p)
{
    uint32_t start = shared(p, 0);
    for (size_t first = 0; first < p->channels; first += DTN_CM_ROWS) {
        const int8_t *rows[DTN_CM_ROWS];
        dtn_cm_rows_of(p->weights, p->depth, first, p->channels, rows);
        uint32_t sums[DTN_CM_ROWS] = {start, start, start, start};
        dtn_cm_add_dots(p->input, p->input_offset, rows, 0, p->depth, sums);
        for (size_t j = 0; j < DTN_CM_ROWS && first + j < p->channels; j++) {
            uint32_t sum = sums[j] + bias(p, first + j);
            dtn_cm_factor_t factor = dtn_cm_factor(&p->scale, first + j);
            p->output[first + j] = dtn_cm_scaled(&p->scale, &factor, sum);
        }
    }
}

void dtn_cm_multiply(const dtn_cm_product_t *product)
{
    if (product->rows == 1) {
        one_row(product);
        return;
    }
    for (size_t row = 0; row < product->rows; row += 2) {
        two_rows(product, row, min_size(row + 1, product->rows - 1));
    }
}
