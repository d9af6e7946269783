#include "../matmul_rows_s16.h"
#include "two_rows_s16_dsp.h"

/* Channels at once, and rows for which unpacking their weights pays. */
enum { TRIPLE = DTN_DSP_TRIPLE, LEAST_ROWS = 4 };

typedef dtn_dsp_block_s16_t block_t;

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
        dtn_dsp_add_two_rows_s16(x, x + input_pitch, block->weights, depth, true, sums);
        store(block, &scale, is_relu, sums, output, output + output_pitch);
        x += 2 * input_pitch;
        output += 2 * output_pitch;
    }
    if (p->rows % 2 != 0) {
        /* An odd row at the end is its own pair. */
        dtn_dsp_add_two_rows_s16(x, x, block->weights, depth, true, sums);
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
    if (p->rows < LEAST_ROWS || p->channels < TRIPLE || p->depth > DTN_DSP_MOST_UNPACKED ||
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
            dtn_dsp_unpack_s16(p->weights + (first + i) * p->depth, p->depth, block.weights + i);
            block.factors[i] = dtn_dsp_factor_s16(&p->scale, first + i);
        }
        if (is_relu) {
            multiply_relu(p, &block, p->output + first);
        } else {
            multiply_any(p, &block, p->output + first);
        }
    }
}
