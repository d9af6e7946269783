#include "operations.h"
#include "weighted_layer.h"

/* Channels at a time. */
enum { CHANNELS = 16 };

/* Adds the products of `count` channels; rows of weights are `pitch` apart. */
static void add(const dtn_ethosu_layer_t *layer, const uint8_t *pixel, int32_t first, int32_t at, int32_t count,
                size_t place, int64_t *sums)
{
    int16_t values[CHANNELS];
    dtn_ethosu_read_short(&layer->input, pixel, first + at, count, values);
    const int16_t *weights = layer->column + place * (size_t)layer->block + at;
    for (int32_t i = 0; i < count; i++) {
        sums[i] += values[i] * weights[i];
    }
}

static void finish_pixel(const dtn_ethosu_layer_t *layer, int32_t first, int32_t depth, int32_t oy, int32_t ox)
{
    const dtn_ethosu_geometry_t *g = &layer->geometry;
    for (int32_t at = 0; at < depth; at += CHANNELS) {
        int32_t count = depth - at < CHANNELS ? depth - at : CHANNELS;
        int64_t sums[CHANNELS] = {0};
        size_t place = 0;
        for (int32_t ky = 0; ky < g->kernel_h; ky++) {
            for (int32_t kx = 0; kx < g->kernel_w; kx++, place++) {
                const uint8_t *pixel = dtn_ethosu_window_pixel(g, &layer->input, oy, ox, ky, kx);
                if (pixel != NULL) {
                    add(layer, pixel, first, at, count, place, sums);
                }
            }
        }
        dtn_ethosu_sums_output(&layer->sums, &layer->out, &layer->output, layer->channels + at, oy, ox, first + at,
                               count, sums);
    }
}

/* Transposes weights to position order, so that adjacent channels are contiguous. */
static void transpose_weights(const dtn_ethosu_layer_t *layer, int32_t depth)
{
    for (size_t place = 0; place < layer->pitch; place++) {
        for (int32_t i = 0; i < depth; i++) {
            layer->column[place * (size_t)layer->block + (size_t)i] = layer->rows[(size_t)i * layer->pitch + place];
        }
    }
}

dtn_ethosu_fault_t dtn_ethosu_depthwise(dtn_ethosu_t *m)
{
    dtn_ethosu_layer_t layer;
    dtn_ethosu_fault_t fault = dtn_ethosu_layer(m, true, &layer);
    if (fault != DTN_ETHOSU_OK || m->is_check) {
        return fault;
    }
    const dtn_ethosu_geometry_t *g = &layer.geometry;
    for (int32_t first = 0; fault == DTN_ETHOSU_OK && first < g->out_c; first += layer.block) {
        int32_t depth = g->out_c - first < layer.block ? g->out_c - first : layer.block;
        fault = dtn_ethosu_read_block(m, &layer, first, depth);
        if (fault != DTN_ETHOSU_OK) {
            break;
        }
        transpose_weights(&layer, depth);
        for (int32_t oy = 0; oy < g->out_h; oy++) {
            for (int32_t ox = 0; ox < g->out_w; ox++) {
                finish_pixel(&layer, first, depth, oy, ox);
            }
        }
    }
    return fault;
}
