/**
 * @file
 * Panels: the weights, bias and factors of as many output channels as a vector has numbers. Channels without a row use
 * the last one; their results are not stored.
 */
#pragma once

#include <stdbool.h>

#include "../requant.h"
#include "vector.h"

/** Numbers of all panels that a call without prepared ones has at a time: 32 KiB. A convolution has as much of its map
 * on the stack too; both are half of a stack of 128 KiB, a small thread's on hosts. No frame may have more than 36 KiB
 * (CMakeLists.txt). */
enum { DTN_PANEL_MEMORY = 8192 };

/** A panel begins with the bias and the factors. */
enum { DTN_PANEL_HEAD = (1 + DTN_FACTORS) * DTN_LANES };

/** Where panels begin: at lines of the cache. */
#define DTN_PANEL_ALIGNED __attribute__((aligned(64)))

/** The weights of panels: `runs` times `length` per channel; inputs of a run are contiguous. `row_step` is 0 if one row
 * is for all channels. */
typedef struct {
    const int8_t *weights;
    const int32_t *bias;
    const dtn_requant_row_t *rows;
    int32_t row_step;
    int32_t in_zp;
    size_t runs;
    size_t length;
    dtn_limits_t limits;
} dtn_layer_t;

/** Groups of weights of a run. */
static inline size_t dtn_run_groups(const dtn_layer_t *layer)
{
    return (layer->length + DTN_GROUP - 1) / DTN_GROUP;
}

/** Numbers of a panel. */
static inline size_t dtn_panel_size(const dtn_layer_t *layer)
{
    return DTN_PANEL_HEAD + layer->runs * dtn_run_groups(layer) * DTN_LANES;
}

/** True if all factors are such that `dtn_scale` has a right shift of 1 or more. */
static inline bool dtn_are_small(const dtn_requant_row_t *rows, int32_t count)
{
    int32_t least = rows[0].shift;
    for (int32_t i = 1; i < count; i++) {
        least = rows[i].shift < least ? rows[i].shift : least;
    }
    return least > 32;
}

/**
 * True if a sum of these channels may be a tie, or a factor is too small for a half that includes the zero point.
 *
 * A tie is an odd multiple of 2^(shift - 1), and what the lowest bit of the multiplier lacks of that the sum must have:
 * sums are not that large, unless multipliers are round numbers.
 */
static inline bool dtn_may_tie(const dtn_layer_t *layer, int32_t channels)
{
    const int32_t most_shift = 32 + 22;
    uint32_t bias = 0;
    bool may = false;
    for (int32_t c = 0; c < channels; c++) {
        uint32_t magnitude = layer->bias[c] < 0 ? 0U - (uint32_t)layer->bias[c] : (uint32_t)layer->bias[c];
        bias = magnitude > bias ? magnitude : bias;
    }
    uint64_t most = (uint64_t)layer->runs * layer->length * 255 * 128 + bias;
    most = most < UINT64_C(1) << 31 ? most : UINT64_C(1) << 31;
    for (int32_t c = 0; c < (layer->row_step == 0 ? 1 : channels); c++) {
        dtn_requant_row_t row = layer->rows[c];
        uint64_t unit = (uint64_t)(row.multiplier & -row.multiplier);
        may = may || row.shift > most_shift || unit * most >= UINT64_C(1) << (row.shift - 1);
    }
    return may;
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
    dtn_write_factors(multiplier, shift, &layer->limits, panel + DTN_LANES);
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
        dtn_write_factors(multiplier, shift, &layer->limits, panel + DTN_LANES);
        return;
    }
    int32_t channels[DTN_LANES];
    for (int32_t j = 0; j < DTN_LANES; j++) {
        channels[j] = first + (j < n ? j : n - 1);
    }
    dtn_panel_gather(layer, channels, panel);
}

/** Writes four groups of each of four channels: a group per row of a panel. */
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

/** Writes one run of the weights of four channels, which begin at `rows`. */
static inline void dtn_panel_run(const int8_t *weights, const size_t *rows, size_t length, int32_t *to)
{
    size_t k = 0;
    for (; k + 4 * DTN_GROUP <= length; k += 4 * DTN_GROUP, to += 4 * DTN_LANES) {
        dtn_panel_square(weights + k, rows, to);
    }
    for (; k + DTN_GROUP <= length; k += DTN_GROUP, to += DTN_LANES) {
        for (int32_t i = 0; i < 4; i++) {
            to[i] = dtn_group_of(weights + rows[i] + k, DTN_GROUP);
        }
    }
    for (int32_t i = 0; i < 4 && k < length; i++) {
        to[i] = dtn_group_of(weights + rows[i] + k, length - k);
    }
}

/** Writes the panel of `n` channels from `first` on. */
static inline void dtn_panel_write(const dtn_layer_t *layer, int32_t first, int32_t n, int32_t *panel)
{
    int32_t *weights = panel + DTN_PANEL_HEAD;
    size_t groups = dtn_run_groups(layer);
    dtn_panel_head(layer, first, n, panel);
    for (int32_t j = 0; j < DTN_LANES; j += 4) {
        size_t rows[4];
        for (int32_t i = 0; i < 4; i++) {
            rows[i] = (size_t)(first + (j + i < n ? j + i : n - 1)) * layer->runs * layer->length;
        }
        for (size_t run = 0; run < layer->runs; run++) {
            dtn_panel_run(layer->weights + run * layer->length, rows, layer->length,
                          weights + run * groups * DTN_LANES + j);
        }
    }
    dtn_vector_t offset = dtn_offset(layer->in_zp);
    dtn_vector_t sums = dtn_splat(0);
    for (size_t g = 0; g < layer->runs * groups; g++) {
        sums = dtn_dot_offset(sums, offset, dtn_load(weights + g * DTN_LANES));
    }
    dtn_keep(panel, dtn_subtract(dtn_load(panel), sums));
}

/** Numbers of the panels of `channels` channels, and of the flag before them: sums may be ties. */
enum { DTN_PANELS_HEAD = 16 };

static inline size_t dtn_panels_size(const dtn_layer_t *layer, int32_t channels)
{
    return DTN_PANELS_HEAD + (size_t)((channels + DTN_LANES - 1) / DTN_LANES) * dtn_panel_size(layer);
}

/** The panels of a call whose parameters a pointer to them follows, or NULL. */
static inline const int32_t *dtn_panels_of(const dtn_call_t *call, size_t params_bytes)
{
    const int32_t *panels;
    memcpy((void *)&panels, (const uint8_t *)call->params + params_bytes, sizeof panels);
    return panels;
}

/** Writes the panels of `channels` channels from `first` on. */
static inline void dtn_panels_write(const dtn_layer_t *layer, int32_t first, int32_t channels, int32_t *panels)
{
    size_t size = dtn_panel_size(layer);
    for (int32_t c = 0; c < channels; c += DTN_LANES, panels += size) {
        dtn_panel_write(layer, first + c, channels - c < DTN_LANES ? channels - c : DTN_LANES, panels);
    }
}

/** Writes all panels of a layer and the flag before them. */
static inline void dtn_panels_prepare(dtn_layer_t *layer, int32_t channels, int32_t *panels)
{
    layer->limits.ties = dtn_may_tie(layer, channels);
    panels[0] = layer->limits.ties ? 1 : 0;
    dtn_panels_write(layer, 0, channels, panels + DTN_PANELS_HEAD);
}
