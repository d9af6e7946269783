#include "product.h"
#include "dot.h"

DTN_CM_DEFINE_DOT_2X2(dot_2x2, int8_t)

static int32_t total(const int8_t *elements, size_t count)
{
    int32_t sum = 0;
    for (size_t k = 0; k < count; k++) {
        sum += elements[k];
    }
    return sum;
}

static uint32_t bias(const dtn_cm_product_t *p, size_t channel)
{
    return p->bias == NULL ? 0U : (uint32_t)p->bias[channel];
}

/* The sum of a channel before its products: the offset of the inputs adds the same to all rows. */
static uint32_t start(const dtn_cm_product_t *p, size_t channel)
{
    return bias(p, channel) + (uint32_t)(p->input_offset * total(p->weights + channel * p->depth, p->depth));
}

/* Two channels of all rows, two rows at a time. An odd one at the end goes with itself. */
static void two_channels(const dtn_cm_product_t *p, size_t channel)
{
    size_t other = channel + 1 < p->channels ? channel + 1 : channel;
    uint32_t start_w = start(p, channel);
    uint32_t start_v = start(p, other);
    dtn_cm_factor_t factor_w = dtn_cm_factor(&p->scale, channel);
    dtn_cm_factor_t factor_v = dtn_cm_factor(&p->scale, other);
    for (size_t row = 0; row < p->rows; row += 2) {
        size_t next = row + 1 < p->rows ? row + 1 : row;
        dtn_cm_dots_2x2_t sums = dot_2x2(p->input + row * p->input_pitch, p->input + next * p->input_pitch,
                                         p->weights + channel * p->depth, p->weights + other * p->depth, p->depth);
        int8_t *x = p->output + row * p->output_pitch;
        int8_t *y = p->output + next * p->output_pitch;
        x[channel] = dtn_cm_scaled(&p->scale, factor_w, start_w + (uint32_t)sums.xw);
        x[other] = dtn_cm_scaled(&p->scale, factor_v, start_v + (uint32_t)sums.xv);
        y[channel] = dtn_cm_scaled(&p->scale, factor_w, start_w + (uint32_t)sums.yw);
        y[other] = dtn_cm_scaled(&p->scale, factor_v, start_v + (uint32_t)sums.yv);
    }
}

/* All channels of one row: the totals of weights, which few rows would share, would cost as much as the products. */
static void one_row(const dtn_cm_product_t *p, size_t row)
{
    const int8_t *input = p->input + row * p->input_pitch;
    int8_t *output = p->output + row * p->output_pitch;
    int32_t shared = 0;
    if (p->weight_offset != 0) {
        shared = p->weight_offset * (total(input, p->depth) + (int32_t)p->depth * p->input_offset);
    }
    for (size_t first = 0; first < p->channels; first += DTN_CM_ROWS) {
        const int8_t *rows[DTN_CM_ROWS];
        dtn_cm_rows_of(p->weights, p->depth, first, p->channels, rows);
        dtn_cm_dots_t sums = dtn_cm_dot(input, p->input_offset, rows, 0, p->depth);
        for (size_t j = 0; j < DTN_CM_ROWS && first + j < p->channels; j++) {
            uint32_t sum = (uint32_t)sums.of[j] + (uint32_t)shared + bias(p, first + j);
            output[first + j] = dtn_cm_scaled(&p->scale, dtn_cm_factor(&p->scale, first + j), sum);
        }
    }
}

void dtn_cm_multiply(const dtn_cm_product_t *product)
{
    if (product->rows > 1 && product->weight_offset == 0) {
        for (size_t channel = 0; channel < product->channels; channel += 2) {
            two_channels(product, channel);
        }
        return;
    }
    for (size_t row = 0; row < product->rows; row++) {
        one_row(product, row);
    }
}
