#include "../matmul_rows_s16.h"
#include "loops_dsp.h"
#include "two_rows_s16_dsp.h"

/* Channels at once, and rows for which unpacking their weights pays. */
enum { TRIPLE = DTN_DSP_TRIPLE, LEAST_ROWS = 4 };

/* One row: channels at once, those of a block, and elements whose products add up to 32 bits. */
enum { FOUR = 4, BLOCK = 16, MOST = 504 };

typedef dtn_dsp_block_s16_t block_t;

/* Outputs of two rows of three channels. */
static inline __attribute__((always_inline)) void store(const block_t *block, const dtn_cm_scale_s16_t *scale,
                                                        bool is_relu, const uint32_t sums[2 * TRIPLE], int16_t *first,
                                                        int16_t *second)
{
    for (size_t i = 0; i < TRIPLE; i++) {
        first[i] = dtn_dsp_scaled_s16(&block->factors[i], scale, is_relu, sums[i]);
        second[i] = dtn_dsp_scaled_s16(&block->factors[i], scale, is_relu, sums[TRIPLE + i]);
    }
}

/* Three channels of all rows, two or more. */
static inline __attribute__((always_inline)) void multiply_block(const dtn_cm_product_s16_t *p, const block_t *block,
                                                                 bool is_relu, int16_t *output)
{
    const int16_t *x = p->input;
    const size_t depth = p->depth;
    const size_t input_pitch = p->input_pitch;
    const size_t output_pitch = p->output_pitch;
    const dtn_cm_scale_s16_t scale = p->scale;
    for (size_t left = p->rows;;) {
        uint32_t sums[2 * TRIPLE];
        dtn_dsp_add_two_rows_s16(x, x + input_pitch, block->weights, depth, true, sums);
        store(block, &scale, is_relu, sums, output, output + output_pitch);
        left -= 2;
        if (left == 0) {
            return;
        }
        /* The last of an odd number of rows is made with the one before once more. */
        const size_t rows = left == 1 ? 1 : 2;
        left = left == 1 ? 2 : left;
        x += rows * input_pitch;
        output += rows * output_pitch;
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

/* All channels, three at a time. */
static void multiply_blocks(const dtn_cm_product_s16_t *p)
{
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

/* ---- Few rows: the weights are unpacked while they are multiplied ---- */

/* Elements 0 and 2, then 1 and 3, of each four, as weights are unpacked. */
static void reorder(const int16_t *inputs, size_t fours, uint32_t *words)
{
    for (; fours != 0; fours--) {
        const uint32_t first = dtn_dsp_load(inputs);
        const uint32_t second = dtn_dsp_load(inputs + 2);
        dtn_dsp_store_two(dtn_dsp_pack_lower(first, second), dtn_dsp_pack_upper(first, second), words);
        inputs += 4;
        words += 2;
    }
}

/* Adds the products of a part of a row with some channels, four or more, to their sums. */
static void add_part(const int16_t *inputs, size_t count, const int8_t *weights, size_t pitch, size_t channels,
                     int64_t sums[BLOCK])
{
    uint32_t words[MOST / 2];
    const size_t fours = count / 4;
    reorder(inputs, fours, words);
    for (size_t j = 0; j < channels; j += FOUR) {
        /* The last four may overlap the four before. */
        const size_t first = channels - j < FOUR ? channels - FOUR : j;
        const int8_t *rows = weights + first * pitch;
        uint32_t own[FOUR] = {0};
        dtn_dsp_add_four_rows(words, fours, rows, pitch, own);
        for (size_t i = j - first; i < FOUR; i++) {
            int32_t sum = (int32_t)own[i];
            for (size_t k = 4 * fours; k < count; k++) {
                sum += inputs[k] * rows[i * pitch + k];
            }
            sums[first + i] += sum;
        }
    }
}

static int16_t finished(const dtn_cm_scale_s16_t *scale, size_t channel, int64_t sum)
{
    if (sum < INT32_MIN || sum > INT32_MAX) {
        return dtn_cm_scaled_s16(scale, channel, sum);
    }
    const dtn_dsp_factor_s16_t factor = dtn_dsp_factor_s16(scale, channel);
    return dtn_dsp_scaled_s16(&factor, scale, false, (uint32_t)(int32_t)sum);
}

static void multiply_row(const dtn_cm_product_s16_t *p, const int16_t *inputs, int16_t *output)
{
    for (size_t next = 0; next < p->channels; next += BLOCK) {
        const size_t left = p->channels - next;
        /* The last block has four channels or more, of which some may be made once more. */
        const size_t first = left < FOUR ? p->channels - FOUR : next;
        const size_t count = p->channels - first < BLOCK ? p->channels - first : BLOCK;
        int64_t sums[BLOCK] = {0};
        for (size_t at = 0; at < p->depth; at += MOST) {
            const size_t own = p->depth - at < MOST ? p->depth - at : MOST;
            add_part(inputs + at, own, p->weights + first * p->depth + at, p->depth, count, sums);
        }
        for (size_t j = 0; j < count; j++) {
            output[first + j] = finished(&p->scale, first + j, sums[j]);
        }
    }
}

/* ---- The product ---- */

void dtn_cm_multiply_s16(const dtn_cm_product_s16_t *p)
{
    if (p->channels < FOUR || p->scale.least_shift < DTN_CM_S16_LEAST_SHIFT) {
        dtn_cm_multiply_rows_s16(p);
    } else if (p->rows < LEAST_ROWS || p->depth > DTN_DSP_MOST_UNPACKED) {
        for (size_t row = 0; row < p->rows; row++) {
            multiply_row(p, p->input + row * p->input_pitch, p->output + row * p->output_pitch);
        }
    } else {
        multiply_blocks(p);
    }
}
