/**
 * @file
 * Two rows of int16 inputs by three rows of int8 weights, which are unpacked to halfwords before. So two elements of
 * both rows, and two of each channel, are five words for six instructions with two products each.
 */
#pragma once

#include "requantize_s16_dsp.h"

/** Channels whose weights are unpacked at once, and the most elements of each. */
enum { DTN_DSP_TRIPLE = 3, DTN_DSP_MOST_UNPACKED = 256 };

/** Three channels. */
typedef struct {
    dtn_dsp_factor_s16_t factors[DTN_DSP_TRIPLE];
    uint32_t weights[DTN_DSP_MOST_UNPACKED / 2 * DTN_DSP_TRIPLE]; /**< for each two elements a word of each channel */
} dtn_dsp_block_s16_t;

/** Unpacks weights of a channel, from its first word on; an odd last element has 0 as the other. */
static inline void dtn_dsp_unpack_s16(const int8_t *weights, size_t depth, uint32_t *words)
{
    size_t left = depth;
    for (; left >= 4; left -= 4) {
        const uint32_t bytes = dtn_dsp_load(weights);
        const uint32_t even = dtn_dsp_even(bytes);
        const uint32_t odd = dtn_dsp_odd(bytes);
        words[0] = dtn_dsp_pack_lower(even, odd);
        words[DTN_DSP_TRIPLE] = dtn_dsp_pack_upper(even, odd);
        weights += 4;
        words += 2 * DTN_DSP_TRIPLE;
    }
    for (; left != 0; left -= left < 2 ? left : 2) {
        *words = dtn_dsp_pack_lower((uint32_t)weights[0], left < 2 ? 0U : (uint32_t)weights[1]);
        weights += 2;
        words += DTN_DSP_TRIPLE;
    }
}

/** Adds the products of two elements of each row with three channels' weights. */
#define DTN_DSP_ADD_TWO(x, y, w, v, u)                                                                                 \
    a = dtn_dsp_both(x, w, a);                                                                                         \
    d = dtn_dsp_both(y, w, d);                                                                                         \
    b = dtn_dsp_both(x, v, b);                                                                                         \
    e = dtn_dsp_both(y, v, e);                                                                                         \
    c = dtn_dsp_both(x, u, c);                                                                                         \
    f = dtn_dsp_both(y, u, f)

/**
 * Adds the products of two rows of inputs with three channels to sums, or makes the first sums: those of the first row,
 * then of the second.
 */
static inline __attribute__((always_inline)) void dtn_dsp_add_two_rows_s16(const int16_t *x, const int16_t *y,
                                                                           const uint32_t *weights, size_t depth,
                                                                           bool is_first,
                                                                           uint32_t sums[2 * DTN_DSP_TRIPLE])
{
    uint32_t a = is_first ? 0 : sums[0];
    uint32_t b = is_first ? 0 : sums[1];
    uint32_t c = is_first ? 0 : sums[2];
    uint32_t d = is_first ? 0 : sums[3];
    uint32_t e = is_first ? 0 : sums[4];
    uint32_t f = is_first ? 0 : sums[5];
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
        DTN_DSP_ADD_TWO(two, other, weights[0], weights[1], weights[2]);
        weights += DTN_DSP_TRIPLE;
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
