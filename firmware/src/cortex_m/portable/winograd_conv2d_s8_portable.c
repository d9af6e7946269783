#include "../winograd.h"

#include <string.h>

/* B' times six numbers, `pitch` apart. */
static void transform(int32_t *d, size_t pitch)
{
    int32_t t[DTN_CM_TILE_INPUTS];
    for (size_t i = 0; i < DTN_CM_TILE_INPUTS; i++) {
        t[i] = d[i * pitch];
    }
    d[0] = 4 * t[0] - 5 * t[2] + t[4];
    d[pitch] = t[4] + t[3] - 4 * t[2] - 4 * t[1];
    d[2 * pitch] = t[4] - t[3] - 4 * t[2] + 4 * t[1];
    d[3 * pitch] = t[4] + 2 * t[3] - t[2] - 2 * t[1];
    d[4 * pitch] = t[4] - 2 * t[3] - t[2] + 2 * t[1];
    d[5 * pitch] = t[5] - 5 * t[3] + 4 * t[1];
}

/* An input, or the value of the padding. */
static int8_t input_at(const dtn_cm_winograd_t *layer, int32_t b, int32_t y, int32_t x, int32_t channel)
{
    const dtn_cm_windows_t *p = layer->p;
    if (y < 0 || y >= p->in_h || x < 0 || x >= p->in_w) {
        return (int8_t)-p->in_offset;
    }
    const size_t row = (size_t)b * (size_t)p->in_h + (size_t)y;
    return layer->input[(row * (size_t)p->in_w + (size_t)x) * (size_t)p->in_c + (size_t)channel];
}

/* Transforms a tile: by position, then by input channel. */
static void transform_tile(const dtn_cm_winograd_t *layer, dtn_cm_tile_t tile, int16_t *transformed)
{
    const dtn_cm_windows_t *p = layer->p;
    for (int32_t channel = 0; channel < p->in_c; channel++) {
        int32_t d[DTN_CM_TILE_PRODUCTS];
        for (int32_t i = 0; i < DTN_CM_TILE_PRODUCTS; i++) {
            d[i] = input_at(layer, tile.b, tile.oy - p->pad_h + i / DTN_CM_TILE_INPUTS,
                            tile.ox - p->pad_w + i % DTN_CM_TILE_INPUTS, channel);
        }
        for (size_t i = 0; i < DTN_CM_TILE_INPUTS; i++) {
            transform(d + i, DTN_CM_TILE_INPUTS);
        }
        for (size_t i = 0; i < DTN_CM_TILE_INPUTS; i++) {
            transform(d + i * DTN_CM_TILE_INPUTS, 1);
        }
        for (size_t i = 0; i < DTN_CM_TILE_PRODUCTS; i++) {
            transformed[i * (size_t)p->in_c + (size_t)channel] = (int16_t)d[i];
        }
    }
}

/* The sum of a channel at a position. `weights` are those of its group, in which it is the channel `index`. */
static uint32_t sum_at(const dtn_cm_winograd_t *layer, const int16_t *transformed, const int16_t *weights, size_t count,
                       size_t index, size_t position)
{
    const size_t inputs = (size_t)layer->p->in_c;
    const size_t words = 2 * dtn_cm_winograd_fours(inputs);
    uint32_t sum = 0;
    for (size_t k = 0; k < inputs; k++) {
        const size_t word = position * words + 2 * (k / 4) + k % 2;
        sum += (uint32_t)(transformed[position * inputs + k] * weights[2 * (word * count + index) + k / 2 % 2]);
    }
    return sum;
}

/* A channel of a tile. */
static void tile_outputs(const dtn_cm_winograd_t *layer, dtn_cm_tile_t tile, const int16_t *transformed,
                         const int16_t *weights, size_t count, size_t index, size_t channel)
{
    const dtn_cm_windows_t *p = layer->p;
    const dtn_cm_factor_t factor = dtn_cm_factor(&layer->scale, channel);
    uint32_t sums[DTN_CM_TILE_PRODUCTS];
    for (size_t i = 0; i < DTN_CM_TILE_PRODUCTS; i++) {
        sums[i] = sum_at(layer, transformed, weights, count, index, i);
    }
    uint32_t z[DTN_CM_TILE][DTN_CM_TILE_INPUTS];
    dtn_cm_tile_columns(sums, 1, DTN_CM_TILE_PRODUCTS * (uint32_t)layer->kernel_sums[channel], z);
    int8_t *out = dtn_cm_tile_output(layer, tile, channel);
    for (int32_t i = 0; i < DTN_CM_TILE && tile.oy + i < p->out_h; i++) {
        const dtn_cm_tile_sums_t y = dtn_cm_tile_sums(z[i]);
        for (int32_t j = 0; j < DTN_CM_TILE && tile.ox + j < p->out_w; j++) {
            const int32_t sum = dtn_cm_tile_sum(y.at[j], (size_t)i, (size_t)j, 0);
            out[((size_t)i * (size_t)p->out_w + (size_t)j) * (size_t)p->out_c] =
                dtn_cm_scaled(&layer->scale, &factor, (uint32_t)sum);
        }
    }
}

void dtn_cm_convolve_winograd(const dtn_cm_winograd_t *layer, void *scratch)
{
    const dtn_cm_windows_t *p = layer->p;
    const size_t outputs = (size_t)p->out_c;
    const size_t of_channel = 4 * DTN_CM_TILE_PRODUCTS * dtn_cm_winograd_fours((size_t)p->in_c);
    int16_t *transformed = (int16_t *)scratch; /* those of a tile, which are made again in each pass */
    for (dtn_cm_tile_t tile = {0, 0, 0}; tile.b < p->batches; tile = dtn_cm_next_tile(p, tile)) {
        transform_tile(layer, tile, transformed);
        for (size_t first = layer->first; first < layer->end;) {
            const size_t count = dtn_cm_winograd_group(first, outputs, layer->most);
            const int16_t *weights = layer->weights + (first - layer->first) * of_channel;
            for (size_t i = 0; i < count && first + i < outputs; i++) {
                tile_outputs(layer, tile, transformed, weights, count, i, first + i);
            }
            first += count;
        }
    }
}

/* G times three numbers. */
static void transform_kernel(const int32_t g[3], int32_t t[DTN_CM_TILE_INPUTS])
{
    t[0] = g[0];
    t[1] = g[0] + g[1] + g[2];
    t[2] = g[0] - g[1] + g[2];
    t[3] = g[0] + 2 * g[1] + 4 * g[2];
    t[4] = g[0] - 2 * g[1] + 4 * g[2];
    t[5] = g[2];
}

void dtn_cm_transform_winograd(const int8_t *kernels, size_t inputs, size_t outputs, size_t count, int16_t *weights)
{
    const size_t words = 2 * dtn_cm_winograd_fours(inputs);
    for (size_t index = 0; index < count; index++) {
        const int8_t *kernel = kernels + (index < outputs ? index : outputs - 1) * 9 * inputs;
        for (size_t k = 0; k < 2 * words; k++) {
            int32_t columns[3][DTN_CM_TILE_INPUTS];
            for (size_t j = 0; j < 3; j++) {
                int32_t g[3];
                for (size_t i = 0; i < 3; i++) {
                    g[i] = k < inputs ? kernel[(3 * i + j) * inputs + k] : 0;
                }
                transform_kernel(g, columns[j]);
            }
            for (size_t i = 0; i < DTN_CM_TILE_INPUTS; i++) {
                const int32_t row[3] = {columns[0][i], columns[1][i], columns[2][i]};
                int32_t t[DTN_CM_TILE_INPUTS];
                transform_kernel(row, t);
                for (size_t j = 0; j < DTN_CM_TILE_INPUTS; j++) {
                    const size_t word = (i * DTN_CM_TILE_INPUTS + j) * words + 2 * (k / 4) + k % 2;
                    weights[2 * (word * count + index) + k / 2 % 2] = (int16_t)t[j];
                }
            }
        }
    }
}
