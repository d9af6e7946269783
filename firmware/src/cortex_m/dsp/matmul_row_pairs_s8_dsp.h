/**
 * @file
 * Products of two rows of inputs with rows of weights. The inputs are unpacked to halfwords once for many channels, in
 * the order in which the weights are unpacked while they are multiplied: elements 0 and 2, and 1 and 3, of each four.
 */
#pragma once

#include "../scale.h"
#include "instructions_dsp.h"

/** Most channels whose bias and factors are on the stack at once. */
enum { DTN_DSP_CHANNELS = 64 };

/** Four elements of two rows, with the offset added: elements 0 and 2, then 1 and 3, the first as the lower half. */
typedef struct {
    uint32_t x[2];
    uint32_t y[2];
} dtn_dsp_quad_t;

/** Two rows of inputs, or parts of them. */
typedef struct {
    const dtn_dsp_quad_t *quads; /**< whole fours */
    size_t count;                /**< of these */
    size_t rest_count;
    dtn_dsp_quad_t rest; /**< up to three elements behind them, and zeros */
} dtn_dsp_pair_t;

/** Sums of rows x and y with rows of weights w and v, in unsigned arithmetic, where overflow is defined. */
typedef struct {
    uint32_t xw;
    uint32_t xv;
    uint32_t yw;
    uint32_t yv;
} dtn_dsp_sums_t;

/** A channel, whose weights are w, and another, whose weights are v. */
typedef struct {
    uint32_t bias[2];
    dtn_cm_factor_t factors[2];
} dtn_dsp_two_t;

/**
 * Some channels of a layer, two by two, with the numbers that are the same for each row. If their number is odd, the
 * last is paired with the one before, which is then computed twice; a single one is paired with itself.
 */
typedef struct {
    const int8_t *weights; /**< a row of `depth` elements for each channel */
    size_t depth;
    size_t last; /**< the first channel of the last two; the others are 0, 2 and so on */
    size_t next; /**< from a channel to the other of the two: 1, or 0 for a single one */
    const dtn_cm_scale_t *scale;
    int32_t addend; /**< as `dtn_dsp_addend` */
    bool is_plain;  /**< as `dtn_dsp_is_plain` */
    dtn_dsp_two_t twos[DTN_DSP_CHANNELS / 2];
} dtn_dsp_block_t;

/** Fills a block with `count` channels of a layer, 1 to DTN_DSP_CHANNELS, from `first` on; `bias` may be NULL. */
void dtn_dsp_make_block(dtn_dsp_block_t *block, const int8_t *weights, size_t depth, const int32_t *bias,
                        const dtn_cm_scale_t *scale, size_t first, size_t count);

/** Words from a quad to the next. */
enum { DTN_DSP_QUAD = sizeof(dtn_dsp_quad_t) / sizeof(uint32_t) };

static inline void dtn_dsp_unpack_four(const int8_t *row, uint32_t offsets, uint32_t *words)
{
    uint32_t bytes = dtn_dsp_load(row);
    dtn_dsp_store_two(dtn_dsp_add_even(offsets, bytes), dtn_dsp_add_odd(offsets, bytes), words);
}

/** Unpacks `count` fours of a row to two words each, `step` words apart: the rows x of quads, the rows y, or a row. */
static inline void dtn_dsp_unpack(const int8_t *row, uint32_t offsets, size_t count, uint32_t *words, size_t step)
{
    for (; count >= 4; count -= 4) {
        dtn_dsp_unpack_four(row, offsets, words);
        dtn_dsp_unpack_four(row + 4, offsets, words + step);
        dtn_dsp_unpack_four(row + 8, offsets, words + 2 * step);
        dtn_dsp_unpack_four(row + 12, offsets, words + 3 * step);
        row += 16;
        words += 4 * step;
    }
    for (; count != 0; count--) {
        dtn_dsp_unpack_four(row, offsets, words);
        row += 4;
        words += step;
    }
}

/** Unpacks up to three elements, and zeros behind them. */
void dtn_dsp_unpack_rest(const int8_t *row, int32_t offset, size_t count, uint32_t words[2]);

/** Up to three weights before `end`, and zeros behind them. Where four weights of the row end there, they are read at
 * once. */
static inline uint32_t dtn_dsp_rest_of_weights(const int8_t *end, size_t count, size_t depth)
{
    if (depth >= 4) {
        return dtn_dsp_load(end - 4) >> (32 - 8 * count);
    }
    uint32_t word = 0;
    for (size_t i = 1; i <= count; i++) {
        word = word << 8 | (uint8_t)*(end - i);
    }
    return word;
}

/** Adds the products of parts of two rows, from element `at` on, to sums for every two channels. */
void dtn_dsp_add_pair(const dtn_dsp_block_t *block, const dtn_dsp_pair_t *pair, size_t at, dtn_dsp_sums_t *sums);

/** Scales and stores the sums, with the bias. x and y are the first channel's, and may be the same. */
void dtn_dsp_store_pair(const dtn_dsp_block_t *block, const dtn_dsp_sums_t *sums, int8_t *x, int8_t *y);

/** All channels of two whole rows: products, scaled and stored from x and y on, which may be the same. */
void dtn_dsp_multiply_pair(const dtn_dsp_block_t *block, const dtn_dsp_pair_t *pair, int8_t *x, int8_t *y);
