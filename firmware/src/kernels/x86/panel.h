/**
 * @file
 * Panels: the weights, bias and factors of as many output channels as a vector has numbers, made at the start of a
 * call. Channels without a row take the last one; what they give is not stored.
 */
#ifndef DTN_PANEL_H
#define DTN_PANEL_H

#include <stdbool.h>

#include "../requant.h"
#include "vector.h"

/** Numbers of all panels in use: half of what a small thread's stack has on hosts. */
enum { DTN_PANEL_MEMORY = 16384 };

/** A panel begins with the bias and the factors. */
enum { DTN_PANEL_HEAD = (1 + DTN_FACTORS) * DTN_LANES };

/** What panels are made of; `row_step` is 0 where one row is for all channels. */
typedef struct {
    const int8_t *weights;
    const int32_t *bias;
    const dtn_requant_row_t *rows;
    int32_t row_step;
} dtn_layer_t;

/** Numbers of a panel with this many groups of weights per channel. */
static inline size_t dtn_panel_size(size_t groups)
{
    return DTN_PANEL_HEAD + groups * DTN_LANES;
}

/** Whether all factors are such that `dtn_scale` has a right shift of 1 or more. */
static inline bool dtn_are_small(const dtn_requant_row_t *rows, int32_t count)
{
    int32_t least = rows[0].shift;
    for (int32_t i = 1; i < count; i++) {
        least = rows[i].shift < least ? rows[i].shift : least;
    }
    return least > 32;
}

/** Writes the bias and the factors of a panel whose channels are these. */
static inline void dtn_panel_gather(const dtn_layer_t *layer, const int32_t *channels, int32_t *panel)
{
    dtn_requant_row_t rows[DTN_LANES];
    dtn_vector_t multiplier = dtn_splat(layer->rows->multiplier);
    dtn_vector_t shift = dtn_splat(layer->rows->shift);
    for (int32_t j = 0; j < DTN_LANES; j++) {
        panel[j] = layer->bias[channels[j]];
    }
    if (layer->row_step != 0) {
        for (int32_t j = 0; j < DTN_LANES; j++) {
            rows[j] = layer->rows[channels[j]];
        }
        dtn_load_rows(rows, &multiplier, &shift);
    }
    dtn_write_factors(multiplier, shift, panel + DTN_LANES);
}

/** The same for the `n` channels from `first` on, and the last one again. */
static inline void dtn_panel_head(const dtn_layer_t *layer, int32_t first, int32_t n, int32_t *panel)
{
    if (n == DTN_LANES) {
        dtn_vector_t multiplier = dtn_splat(layer->rows->multiplier);
        dtn_vector_t shift = dtn_splat(layer->rows->shift);
        if (layer->row_step != 0) {
            dtn_load_rows(layer->rows + first, &multiplier, &shift);
        }
        dtn_keep(panel, dtn_load(layer->bias + first));
        dtn_write_factors(multiplier, shift, panel + DTN_LANES);
        return;
    }
    int32_t channels[DTN_LANES];
    for (int32_t j = 0; j < DTN_LANES; j++) {
        channels[j] = first + (j < n ? j : n - 1);
    }
    dtn_panel_gather(layer, channels, panel);
}

/** Writes four groups of each of four channels, `count` weights apart: a group per row of a panel. */
static inline void dtn_panel_square(const int8_t *weights, const size_t *rows, int32_t *to)
{
    __m128i a = dtn_groups(weights + rows[0]);
    __m128i b = dtn_groups(weights + rows[1]);
    __m128i c = dtn_groups(weights + rows[2]);
    __m128i d = dtn_groups(weights + rows[3]);
    __m128i ab = _mm_unpacklo_epi32(a, b);
    __m128i cd = _mm_unpacklo_epi32(c, d);
    _mm_storeu_si128((__m128i *)(void *)to, _mm_unpacklo_epi64(ab, cd));
    _mm_storeu_si128((__m128i *)(void *)(to + DTN_LANES), _mm_unpackhi_epi64(ab, cd));
    ab = _mm_unpackhi_epi32(a, b);
    cd = _mm_unpackhi_epi32(c, d);
    _mm_storeu_si128((__m128i *)(void *)(to + 2 * DTN_LANES), _mm_unpacklo_epi64(ab, cd));
    _mm_storeu_si128((__m128i *)(void *)(to + 3 * DTN_LANES), _mm_unpackhi_epi64(ab, cd));
}

/** Writes the panel of `n` channels from `first` on with `count` weights each, for inputs of this zero point. */
static inline void dtn_panel_write(const dtn_layer_t *layer, int32_t first, int32_t n, size_t count, int32_t zero_point,
                                   int32_t *panel)
{
    int32_t *weights = panel + DTN_PANEL_HEAD;
    dtn_panel_head(layer, first, n, panel);
    for (int32_t j = 0; j < DTN_LANES; j += 4) {
        size_t rows[4];
        size_t k = 0;
        for (int32_t i = 0; i < 4; i++) {
            rows[i] = (size_t)(first + (j + i < n ? j + i : n - 1)) * count;
        }
        for (; k + 4 * DTN_GROUP <= count; k += 4 * DTN_GROUP) {
            dtn_panel_square(layer->weights + k, rows, weights + k / DTN_GROUP * DTN_LANES + j);
        }
        for (; k + DTN_GROUP <= count; k += DTN_GROUP) {
            for (int32_t i = 0; i < 4; i++) {
                weights[k / DTN_GROUP * DTN_LANES + (size_t)(j + i)] =
                    dtn_group_of(layer->weights + rows[i] + k, DTN_GROUP);
            }
        }
        for (int32_t i = 0; i < 4 && k < count; i++) {
            weights[k / DTN_GROUP * DTN_LANES + (size_t)(j + i)] =
                dtn_group_of(layer->weights + rows[i] + k, count - k);
        }
    }
    size_t groups = (count + DTN_GROUP - 1) / DTN_GROUP;
    dtn_vector_t offset = dtn_offset(zero_point);
    dtn_vector_t sums = dtn_splat(0);
    for (size_t g = 0; g < groups; g++) {
        sums = dtn_dot_offset(sums, offset, dtn_load(weights + g * DTN_LANES));
    }
    dtn_keep(panel, dtn_subtract(dtn_load(panel), sums));
}

#endif /* DTN_PANEL_H */
