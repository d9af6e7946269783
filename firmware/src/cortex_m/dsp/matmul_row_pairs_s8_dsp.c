#include "matmul_row_pairs_s8_dsp.h"
#include "loops_dsp.h"
#include "scale_dsp.h"

void dtn_dsp_make_block(dtn_dsp_block_t *block, const int8_t *weights, size_t depth, const int32_t *bias,
                        const dtn_cm_scale_t *scale, size_t first, size_t count)
{
    block->weights = weights + first * depth;
    block->depth = depth;
    block->last = count < 2 ? 0 : count - 2;
    block->next = count < 2 ? 0 : 1;
    block->scale = scale;
    block->addend = dtn_dsp_addend(scale);
    block->is_plain = dtn_dsp_has_plain_limits(scale);
    for (size_t i = 0; i < count + count % 2; i++) {
        dtn_dsp_two_t *two = &block->twos[i / 2];
        size_t channel = first + (i / 2 * 2 < block->last ? i / 2 * 2 : block->last) + i % 2 * block->next;
        two->bias[i % 2] = bias == NULL ? 0U : (uint32_t)bias[channel];
        two->factors[i % 2] = dtn_cm_factor(scale, channel);
        block->is_plain = block->is_plain && two->factors[i % 2].drop <= DTN_CM_MOST_DROP;
    }
}

void dtn_dsp_unpack_rest(const int8_t *row, int32_t offset, size_t count, uint32_t words[2])
{
    words[0] = count == 0 ? 0U : (uint32_t)(row[0] + offset) & 0xFFFFU;
    words[0] |= count < 3 ? 0U : (uint32_t)(row[2] + offset) << 16;
    words[1] = count < 2 ? 0U : (uint32_t)(row[1] + offset) & 0xFFFFU;
}

/* Adds the products of a quad with four weights of two rows. */
static inline void add_quad(const dtn_dsp_quad_t *quad, uint32_t w, uint32_t v, dtn_dsp_sums_t *sums)
{
    uint32_t w_odd = dtn_dsp_odd(w);
    uint32_t v_odd = dtn_dsp_odd(v);
    w = dtn_dsp_even(w);
    v = dtn_dsp_even(v);
    uint32_t even = quad->x[0];
    uint32_t odd = quad->x[1];
    sums->xw = dtn_dsp_both(even, w, sums->xw);
    sums->xv = dtn_dsp_both(even, v, sums->xv);
    sums->xw = dtn_dsp_both(odd, w_odd, sums->xw);
    sums->xv = dtn_dsp_both(odd, v_odd, sums->xv);
    even = quad->y[0];
    odd = quad->y[1];
    sums->yw = dtn_dsp_both(even, w, sums->yw);
    sums->yv = dtn_dsp_both(even, v, sums->yv);
    sums->yw = dtn_dsp_both(odd, w_odd, sums->yw);
    sums->yv = dtn_dsp_both(odd, v_odd, sums->yv);
}

static inline void add_pair(const dtn_dsp_pair_t *pair, const int8_t *w, const int8_t *v, size_t depth,
                            dtn_dsp_sums_t *result)
{
    dtn_dsp_sums_t sums = *result;
    const dtn_dsp_quad_t *quad = pair->quads;
    for (size_t turns = pair->count / 4; turns != 0; turns--) {
        add_quad(&quad[0], dtn_dsp_load(w), dtn_dsp_load(v), &sums);
        add_quad(&quad[1], dtn_dsp_load(w + 4), dtn_dsp_load(v + 4), &sums);
        add_quad(&quad[2], dtn_dsp_load(w + 8), dtn_dsp_load(v + 8), &sums);
        add_quad(&quad[3], dtn_dsp_load(w + 12), dtn_dsp_load(v + 12), &sums);
        quad += 4;
        w += 16;
        v += 16;
    }
    for (size_t turns = pair->count % 4; turns != 0; turns--) {
        add_quad(quad++, dtn_dsp_load(w), dtn_dsp_load(v), &sums);
        w += 4;
        v += 4;
    }
    if (pair->rest_count != 0) {
        size_t count = pair->rest_count;
        add_quad(&pair->rest, dtn_dsp_rest_of_weights(w + count, count, depth),
                 dtn_dsp_rest_of_weights(v + count, count, depth), &sums);
    }
    *result = sums;
}

void dtn_dsp_add_pair(const dtn_dsp_block_t *block, const dtn_dsp_pair_t *pair, size_t at, dtn_dsp_sums_t *sums)
{
    size_t channel = 0;
    for (;; channel = channel + 2 < block->last ? channel + 2 : block->last) {
        const int8_t *w = block->weights + channel * block->depth + at;
        add_pair(pair, w, w + block->next * block->depth, block->depth, sums++);
        if (channel == block->last) {
            return;
        }
    }
}

/* The outputs of two channels. y is stored first, since x may be the same. */
static inline void store_fast(const dtn_dsp_two_t *two, int32_t addend, size_t next, const dtn_dsp_sums_t *sums,
                              int8_t *x, int8_t *y)
{
    dtn_cm_factor_t factor = two->factors[0];
    y[0] = dtn_dsp_scaled(addend, factor, sums->yw);
    x[0] = dtn_dsp_scaled(addend, factor, sums->xw);
    factor = two->factors[1];
    y[next] = dtn_dsp_scaled(addend, factor, sums->yv);
    x[next] = dtn_dsp_scaled(addend, factor, sums->xv);
}

/* The same for all factors and limits. */
static void store_other(const dtn_cm_scale_t *scale, const dtn_dsp_two_t *two, size_t next, const dtn_dsp_sums_t *sums,
                        int8_t *x, int8_t *y)
{
    y[0] = dtn_cm_scaled(scale, &two->factors[0], sums->yw);
    x[0] = dtn_cm_scaled(scale, &two->factors[0], sums->xw);
    y[next] = dtn_cm_scaled(scale, &two->factors[1], sums->yv);
    x[next] = dtn_cm_scaled(scale, &two->factors[1], sums->xv);
}

void dtn_dsp_store_pair(const dtn_dsp_block_t *block, const dtn_dsp_sums_t *sums, int8_t *x, int8_t *y)
{
    const dtn_dsp_two_t *two = block->twos;
    size_t channel = 0;
    for (;; channel = channel + 2 < block->last ? channel + 2 : block->last) {
        dtn_dsp_sums_t whole = {sums->xw + two->bias[0], sums->xv + two->bias[1], sums->yw + two->bias[0],
                                sums->yv + two->bias[1]};
        if (block->is_plain) {
            store_fast(two, block->addend, block->next, &whole, x + channel, y + channel);
        } else {
            store_other(block->scale, two, block->next, &whole, x + channel, y + channel);
        }
        if (channel == block->last) {
            return;
        }
        two++;
        sums++;
    }
}

/* Some channels from `first` on, two by two, with usual factors and limits; rows of four elements or more. */
static inline void multiply_fast(const dtn_dsp_block_t *block, const dtn_dsp_pair_t *pair, size_t first, size_t count,
                                 int8_t *x, int8_t *y)
{
    const uint32_t *inputs = pair->quads->x;
    const size_t missing = pair->rest_count == 0 ? 0 : 4 - pair->rest_count;
    dtn_dsp_multiply_pairs(inputs, block->weights + first * block->depth, block->depth, count,
                           inputs + pair->count / 4 * 4 * DTN_DSP_QUAD, inputs + pair->count * DTN_DSP_QUAD,
                           pair->rest.x, missing, &block->twos[(first + 1) / 2], x + first, y + first, block->addend);
}

void dtn_dsp_multiply_pair(const dtn_dsp_block_t *block, const dtn_dsp_pair_t *rows, int8_t *x, int8_t *y)
{
    if (block->is_plain && block->next == 1 && rows->count != 0) {
        multiply_fast(block, rows, 0, block->last / 2 + 1, x, y);
        if (block->last % 2 != 0) {
            multiply_fast(block, rows, block->last, 1, x, y);
        }
        return;
    }
    const size_t depth = block->depth;
    const dtn_dsp_two_t *two = block->twos;
    size_t channel = 0;
    for (;; channel = channel + 2 < block->last ? channel + 2 : block->last) {
        const int8_t *w = block->weights + channel * depth;
        dtn_dsp_sums_t sums = {two->bias[0], two->bias[1], two->bias[0], two->bias[1]};
        add_pair(rows, w, w + block->next * depth, depth, &sums);
        store_other(block->scale, two, block->next, &sums, x + channel, y + channel);
        if (channel == block->last) {
            return;
        }
        two++;
    }
}
