#include "../matmul_rows_s16.h"
#include "requantize_s16_dsp.h"

/* Channels whose weights are unpacked at once, their most elements, and rows for which that pays. */
enum { TRIPLE = 3, MOST_DEPTH = 256, LEAST_ROWS = 4 };

/* Three channels. */
typedef struct {
    dtn_dsp_factor_s16_t factors[TRIPLE];
    uint32_t weights[MOST_DEPTH / 2 * TRIPLE]; /* for each two elements a word of each channel */
} block_t;

/* Unpacks the weights of a channel, which is `index` of the block; an odd last element has 0 as the other. */
static void unpack(const int8_t *weights, size_t depth, size_t index, block_t *block)
{
    uint32_t *words = block->weights + index;
    size_t left = depth;
    for (; left >= 4; left -= 4) {
        const uint32_t bytes = dtn_dsp_load(weights);
        const uint32_t even = dtn_dsp_even(bytes);
        const uint32_t odd = dtn_dsp_odd(bytes);
        words[0] = dtn_dsp_pack_lower(even, odd);
        words[TRIPLE] = dtn_dsp_pack_upper(even, odd);
        weights += 4;
        words += 2 * TRIPLE;
    }
    for (; left != 0; left -= left < 2 ? left : 2) {
        *words = dtn_dsp_pack_lower((uint32_t)weights[0], left < 2 ? 0U : (uint32_t)weights[1]);
        weights += 2;
        words += TRIPLE;
    }
}

/* Adds the products of two elements of each row with three channels' weights. */
#define ADD_TWO(x, y, w, v, u)                                                                                         \
    a = dtn_dsp_both(x, w, a);                                                                                         \
    d = dtn_dsp_both(y, w, d);                                                                                         \
    b = dtn_dsp_both(x, v, b);                                                                                         \
    e = dtn_dsp_both(y, v, e);                                                                                         \
    c = dtn_dsp_both(x, u, c);                                                                                         \
    f = dtn_dsp_both(y, u, f)

/* Sums of two rows of inputs with three rows of weights: those of the first row, then those of the second. */
static inline void two_rows(const int16_t *x, const int16_t *y, const uint32_t *weights, size_t depth,
                            uint32_t sums[2 * TRIPLE])
{
    uint32_t a = 0;
    uint32_t b = 0;
    uint32_t c = 0;
    uint32_t d = 0;
    uint32_t e = 0;
    uint32_t f = 0;
    uint32_t w;
    uint32_t v;
    const int16_t *last = x + (depth & ~(size_t)7);
    while (x != last) {
        for (size_t i = 0; i < 8; i += 4) {
            uint32_t two = dtn_dsp_load(x + i);
            uint32_t other = dtn_dsp_load(y + i);
            dtn_dsp_next_two(&weights, &w, &v);
            a = dtn_dsp_both(two, w, a);
            d = dtn_dsp_both(other, w, d);
            b = dtn_dsp_both(two, v, b);
            e = dtn_dsp_both(other, v, e);
            dtn_dsp_next_two(&weights, &w, &v);
            c = dtn_dsp_both(two, w, c);
            f = dtn_dsp_both(other, w, f);
            two = dtn_dsp_load(x + i + 2);
            other = dtn_dsp_load(y + i + 2);
            a = dtn_dsp_both(two, v, a);
            d = dtn_dsp_both(other, v, d);
            dtn_dsp_next_two(&weights, &w, &v);
            b = dtn_dsp_both(two, w, b);
            e = dtn_dsp_both(other, w, e);
            c = dtn_dsp_both(two, v, c);
            f = dtn_dsp_both(other, v, f);
        }
        x += 8;
        y += 8;
    }
    for (size_t left = depth % 8; left != 0; left -= left < 2 ? left : 2) {
        const uint32_t two = left < 2 ? (uint16_t)*x : dtn_dsp_load(x);
        const uint32_t other = left < 2 ? (uint16_t)*y : dtn_dsp_load(y);
        ADD_TWO(two, other, weights[0], weights[1], weights[2]);
        weights += TRIPLE;
        x += 2;
        y += 2;
    }
    sums[0] = a;
    sums[1] = b;
    sums[2] = c;
    sums[3] = d;
    sums[4] = e;
    sums[5] = f;
}

/* Outputs of two rows of three channels. The second is stored first, since both may be the same. */
static inline void store(const block_t *block, const dtn_cm_scale_s16_t *scale, bool is_relu,
                         const uint32_t sums[2 * TRIPLE], int16_t *first, int16_t *second)
{
    for (size_t i = 0; i < TRIPLE; i++) {
        second[i] = dtn_dsp_scaled_s16(&block->factors[i], scale, is_relu, sums[TRIPLE + i]);
        first[i] = dtn_dsp_scaled_s16(&block->factors[i], scale, is_relu, sums[i]);
    }
}

/* Three channels of all rows. */
static inline __attribute__((always_inline)) void multiply_block(const dtn_cm_product_s16_t *p, const block_t *block,
                                                                 bool is_relu, int16_t *output)
{
    const int16_t *x = p->input;
    const size_t depth = p->depth;
    const size_t input_pitch = p->input_pitch;
    const size_t output_pitch = p->output_pitch;
    const dtn_cm_scale_s16_t scale = p->scale;
    uint32_t sums[2 * TRIPLE];
    for (size_t left = p->rows / 2; left != 0; left--) {
        two_rows(x, x + input_pitch, block->weights, depth, sums);
        store(block, &scale, is_relu, sums, output, output + output_pitch);
        x += 2 * input_pitch;
        output += 2 * output_pitch;
    }
    if (p->rows % 2 != 0) {
        /* An odd row at the end is its own pair. */
        two_rows(x, x, block->weights, depth, sums);
        store(block, &scale, is_relu, sums, output, output);
    }
}

/* Functions of their own, in which the compiler has registers for everything. */
static __attribute__((noinline)) void multiply_relu(const dtn_cm_product_s16_t *p, const block_t *block,
                                                    int16_t *output)
{
    multiply_block(p, block, true, output);
}

static __attribute__((noinline)) void multiply_any(const dtn_cm_product_s16_t *p, const block_t *block, int16_t *output)
{
    multiply_block(p, block, false, output);
}

void dtn_cm_multiply_s16(const dtn_cm_product_s16_t *p)
{
    if (p->rows < LEAST_ROWS || p->channels < TRIPLE || p->depth > MOST_DEPTH ||
        p->scale.least_shift < DTN_DSP_LEAST_SHIFT_S16) {
        dtn_cm_multiply_rows_s16(p);
        return;
    }
    const bool is_relu = dtn_dsp_is_relu_s16(&p->scale);
    block_t block;
    for (size_t next = 0; next < p->channels; next += TRIPLE) {
        /* Some of the last channels may be made once more. */
        const size_t first = p->channels - next < TRIPLE ? p->channels - TRIPLE : next;
        for (size_t i = 0; i < TRIPLE; i++) {
            unpack(p->weights + (first + i) * p->depth, p->depth, i, &block);
            block.factors[i] = dtn_dsp_factor_s16(&p->scale, first + i);
        }
        if (is_relu) {
            multiply_relu(p, &block, p->output + first);
        } else {
            multiply_any(p, &block, p->output + first);
        }
    }
}
