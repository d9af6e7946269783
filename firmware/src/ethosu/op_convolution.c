#include "operations.h"
#include "weighted_layer.h"

#include <string.h>

/* Output channels that are stored at once. */
enum { STORED = 16 };

static int32_t dot(const int16_t *restrict x, const int16_t *restrict w, size_t count)
{
    int32_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += x[i] * w[i];
    }
    return sum;
}

/* Gathers the window of an output pixel: input minus zero point, by position. */
static void gather(const dtn_ethosu_layer_t *layer, int32_t oy, int32_t ox)
{
    const dtn_ethosu_geometry_t *g = &layer->geometry;
    int16_t *column = layer->column;
    for (int32_t ky = 0; ky < g->kernel_h; ky++) {
        for (int32_t kx = 0; kx < g->kernel_w; kx++) {
            const uint8_t *pixel = dtn_ethosu_window_pixel(g, &layer->input, oy, ox, ky, kx);
            if (pixel == NULL) {
                memset(column, 0, (size_t)g->in_c * sizeof *column);
            } else {
                dtn_ethosu_read_short(&layer->input, pixel, 0, g->in_c, column);
            }
            column += g->in_c;
        }
    }
}

static int64_t sum_of(const dtn_ethosu_layer_t *layer, const int16_t *row)
{
    size_t most = layer->products;
    int64_t sum = 0;
    for (size_t at = 0; at < layer->pitch; at += most) {
        size_t count = layer->pitch - at < most ? layer->pitch - at : most;
        sum += dot(layer->column + at, row + at, count);
    }
    return sum;
}

/* Finishes a block of output channels of one pixel from its gathered window. */
static void finish_pixel(const dtn_ethosu_layer_t *layer, int32_t first, int32_t depth, int32_t oy, int32_t ox)
{
    int64_t sums[STORED];
    for (int32_t at = 0; at < depth; at += STORED) {
        int32_t count = depth - at < STORED ? depth - at : STORED;
        for (int32_t i = 0; i < count; i++) {
            sums[i] = sum_of(layer, layer->rows + (size_t)(at + i) * layer->pitch);
        }
        dtn_ethosu_sums_output(&layer->sums, &layer->out, &layer->output, layer->channels + at, oy, ox, first + at,
                               count, sums);
    }
}

dtn_ethosu_fault_t dtn_ethosu_convolution(dtn_ethosu_t *m)
{
    dtn_ethosu_layer_t layer;
    dtn_ethosu_fault_t fault = dtn_ethosu_layer(m, false, &layer);
    if (fault != DTN_ETHOSU_OK || m->is_check) {
        return fault;
    }
    const dtn_ethosu_geometry_t *g = &layer.geometry;
    for (int32_t first = 0; fault == DTN_ETHOSU_OK && first < g->out_c; first += layer.block) {
        int32_t depth = g->out_c - first < layer.block ? g->out_c - first : layer.block;
        fault = dtn_ethosu_read_block(m, &layer, first, depth);
        for (int32_t oy = 0; fault == DTN_ETHOSU_OK && oy < g->out_h; oy++) {
            for (int32_t ox = 0; ox < g->out_w; ox++) {
                gather(&layer, oy, ox);
                finish_pixel(&layer, first, depth, oy, ox);
            }
        }
    }
    return fault;
}
