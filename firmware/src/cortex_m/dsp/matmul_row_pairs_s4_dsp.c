#include "matmul_row_pairs_s4_dsp.h"
#include "loops_s4_dsp.h"
#include "scale_dsp.h"

/* A block has its channels two by two, as packed rows have them; `last` is the channel behind them, and of an odd
 * number of them the last one is there twice. */
void dtn_dsp_make_block_s4(dtn_dsp_block_t *block, const int8_t *weights, size_t depth, const int32_t *bias,
                           const dtn_cm_scale_t *scale, size_t first, size_t count)
{
    block->weights = weights + first / DTN_CM_PACKED * depth;
    block->depth = depth;
    block->last = count;
    block->next = 0;
    block->scale = scale;
    block->addend = dtn_dsp_addend(scale);
    block->is_plain = dtn_dsp_has_plain_limits(scale);
    for (size_t i = 0; i < count + count % 2; i++) {
        dtn_dsp_two_t *two = &block->twos[i / 2];
        const size_t channel = first + (i < count ? i : count - 1);
        two->bias[i % 2] = (uint32_t)bias[channel];
        two->factors[i % 2] = dtn_cm_factor(scale, channel);
        block->is_plain = block->is_plain && two->factors[i % 2].drop <= DTN_CM_MOST_DROP;
    }
}

/* Adds the products of a quad with four bytes of a packed row. */
static inline void add_quad(const dtn_dsp_quad_t *quad, uint32_t bytes, dtn_dsp_sums_t *sums)
{
    const uint32_t first = bytes << 4 & UINT32_C(0xF0F0F0F0);
    const uint32_t first_odd = dtn_dsp_odd(first);
    const uint32_t odd = dtn_dsp_odd(bytes);
    const uint32_t first_even = dtn_dsp_even(first);
    const uint32_t even = dtn_dsp_even(bytes);
    uint32_t inputs = quad->x[0];
    uint32_t odd_inputs = quad->x[1];
    sums->xw = dtn_dsp_both(inputs, first_even, sums->xw);
    sums->xv = dtn_dsp_both(inputs, even, sums->xv);
    sums->xw = dtn_dsp_both(odd_inputs, first_odd, sums->xw);
    sums->xv = dtn_dsp_both(odd_inputs, odd, sums->xv);
    inputs = quad->y[0];
    odd_inputs = quad->y[1];
    sums->yw = dtn_dsp_both(inputs, first_even, sums->yw);
    sums->yv = dtn_dsp_both(inputs, even, sums->yv);
    sums->yw = dtn_dsp_both(odd_inputs, first_odd, sums->yw);
    sums->yv = dtn_dsp_both(odd_inputs, odd, sums->yv);
}

static inline void add_pair(const dtn_dsp_pair_t *pair, const int8_t *packed, size_t depth, dtn_dsp_sums_t *result)
{
    dtn_dsp_sums_t sums = *result;
    const dtn_dsp_quad_t *quad = pair->quads;
    for (size_t turns = pair->count / 4; turns != 0; turns--) {
        add_quad(&quad[0], dtn_dsp_load(packed), &sums);
        add_quad(&quad[1], dtn_dsp_load(packed + 4), &sums);
        add_quad(&quad[2], dtn_dsp_load(packed + 8), &sums);
        add_quad(&quad[3], dtn_dsp_load(packed + 12), &sums);
        quad += 4;
        packed += 16;
    }
    for (size_t turns = pair->count % 4; turns != 0; turns--) {
        add_quad(quad++, dtn_dsp_load(packed), &sums);
        packed += 4;
    }
    if (pair->rest_count != 0) {
        add_quad(&pair->rest, dtn_dsp_rest_of_weights(packed + pair->rest_count, pair->rest_count, depth), &sums);
    }
    *result = sums;
}

void dtn_dsp_add_pair_s4(const dtn_dsp_block_t *block, const dtn_dsp_pair_t *pair, size_t at, dtn_dsp_sums_t *sums)
{
    const int8_t *packed = block->weights + at;
    for (size_t channel = 0; channel < block->last; channel += DTN_CM_PACKED) {
        add_pair(pair, packed, block->depth, sums++);
        packed += block->depth;
    }
}

/* The outputs of two channels, or of the last one, from their sums a and b. y is stored first, since x may be the same.
 */
static void store_two(const dtn_dsp_block_t *block, size_t channel, const dtn_dsp_sums_t *sums, int8_t *x, int8_t *y)
{
    const dtn_dsp_two_t *two = &block->twos[channel / DTN_CM_PACKED];
    const uint32_t of_y[] = {dtn_cm_first_sum(sums->yw), dtn_cm_second_sum(sums->yw, sums->yv)};
    const uint32_t of_x[] = {dtn_cm_first_sum(sums->xw), dtn_cm_second_sum(sums->xw, sums->xv)};
    for (size_t j = 0; j < DTN_CM_PACKED && channel + j < block->last; j++) {
        y[channel + j] = dtn_cm_scaled(block->scale, &two->factors[j], of_y[j] + two->bias[j]);
        x[channel + j] = dtn_cm_scaled(block->scale, &two->factors[j], of_x[j] + two->bias[j]);
    }
}

void dtn_dsp_store_pair_s4(const dtn_dsp_block_t *block, const dtn_dsp_sums_t *sums, int8_t *x, int8_t *y)
{
    for (size_t channel = 0; channel < block->last; channel += DTN_CM_PACKED) {
        store_two(block, channel, sums++, x, y);
    }
}

void dtn_dsp_multiply_pair_s4(const dtn_dsp_block_t *block, const dtn_dsp_pair_t *rows, int8_t *x, int8_t *y)
{
    const size_t depth = block->depth;
    const size_t whole = block->is_plain && rows->count != 0 ? block->last / DTN_CM_PACKED : 0;
    if (whole != 0) {
        const uint32_t *inputs = rows->quads->x;
        const size_t missing = rows->rest_count == 0 ? 0 : 4 - rows->rest_count;
        dtn_dsp_multiply_pairs_s4(inputs, block->weights, depth, whole, inputs + rows->count / 4 * 4 * DTN_DSP_QUAD,
                                  inputs + rows->count * DTN_DSP_QUAD, rows->rest.x, missing, block->twos, x, y,
                                  block->addend);
    }
    for (size_t channel = whole * DTN_CM_PACKED; channel < block->last; channel += DTN_CM_PACKED) {
        dtn_dsp_sums_t sums = {0, 0, 0, 0};
        add_pair(rows, block->weights + channel / DTN_CM_PACKED * depth, depth, &sums);
        store_two(block, channel, &sums, x, y);
    }
}
