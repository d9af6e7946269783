/**
 * @file
 * Products of three rows of inputs with pairs of interleaved rows of weights (interleaved_weights.h). Inputs are
 * unpacked to halfwords once for all channels: for each word of weights, the same two elements of all three rows.
 */
#pragma once

#include "../inner_loops.h"
#include "scale_dsp.h"

enum {
    DTN_DSP_THREE = 3,           /**< rows */
    DTN_DSP_MOST_WORDS = 144,    /**< most words of a window, with which those of three windows fit the stack */
    DTN_DSP_MOST_OF_A_ROW = 128, /**< the same of a row of a product */
};

/** Rows of inputs of up to DTN_DSP_MOST_OF_A_ROW words by all channels, with usual factors and limits. */
void dtn_dsp_multiply_rows(const dtn_cm_product_t *product);

/** An even number of channels, each with its own factor. */
typedef struct {
    const int8_t *weights; /**< pairs of rows of `words` words */
    bool has_s16_weights;
    const int32_t *bias;
    const int32_t *multipliers;
    const int32_t *shifts;
    size_t words;
    size_t count;
    int32_t addend; /**< as `dtn_dsp_addend` */
} dtn_dsp_channels_t;

/** Three rows of inputs by the channels. Rows of outputs are `pitch` apart; with a pitch of 0 all rows are one. */
void dtn_dsp_multiply_three(const dtn_dsp_channels_t *channels, const uint32_t *inputs, int8_t *output, size_t pitch);

/** Unpacks four elements of a row, whose first word this is. */
static inline void dtn_dsp_unpack_four_of_three(const int8_t *row, uint32_t *words)
{
    const uint32_t bytes = dtn_dsp_load(row);
    words[0] = dtn_dsp_even(bytes);
    words[DTN_DSP_THREE] = dtn_dsp_odd(bytes);
}

/** Unpacks `count` fours of a row. */
static inline void dtn_dsp_unpack_fours_of_three(const int8_t *row, size_t count, uint32_t *words)
{
    for (; count >= 4; count -= 4) {
        dtn_dsp_unpack_four_of_three(row, words);
        dtn_dsp_unpack_four_of_three(row + 4, words + 2 * DTN_DSP_THREE);
        dtn_dsp_unpack_four_of_three(row + 8, words + 4 * DTN_DSP_THREE);
        dtn_dsp_unpack_four_of_three(row + 12, words + 6 * DTN_DSP_THREE);
        row += 16;
        words += 8 * DTN_DSP_THREE;
    }
    for (; count != 0; count--) {
        dtn_dsp_unpack_four_of_three(row, words);
        row += 4;
        words += 2 * DTN_DSP_THREE;
    }
}

/** Unpacks a row of `count` elements, whose first word this is. A half without an element may have any value. */
static inline void dtn_dsp_unpack_row_of_three(const int8_t *row, size_t count, uint32_t *words)
{
    const size_t rest = count % 4;
    dtn_dsp_unpack_fours_of_three(row, count / 4, words);
    if (rest != 0) {
        const int8_t *last = row + count - rest;
        words += count / 4 * 2 * DTN_DSP_THREE;
        words[0] = rest == 1 ? (uint32_t)last[0] : ((uint32_t)last[0] & 0xFFFFU) | (uint32_t)last[rest - 1] << 16;
        if (rest == 3) {
            words[DTN_DSP_THREE] = (uint32_t)last[1];
        }
    }
}
