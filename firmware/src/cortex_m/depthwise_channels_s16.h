/**
 * @file
 * A depthwise convolution of int16 inputs: of any kernel, with any factors.
 */
#pragma once

#include "inner_loops_s16.h"

/** A part of a window that is on the map. */
typedef struct {
    const int16_t *input;  /**< of the first channel at the first position */
    const int8_t *weights; /**< of the first channel at that position */
    int32_t rows;
    int32_t columns;
} dtn_cm_taps_s16_t;

/** The part of the window of output (oy, ox); its sizes are 0 where nothing of it is on the map. */
static inline dtn_cm_taps_s16_t dtn_cm_taps_s16(const dtn_cm_image_s16_t *layer, int32_t ox, dtn_cm_window_t rows)
{
    const dtn_cm_convolution_s16_params_t *p = layer->p;
    dtn_cm_window_t columns = dtn_cm_window(ox, p->stride_w, p->pad_w, p->kernel_w, p->dilation_w, p->in_w);
    size_t y = (size_t)(rows.start + rows.first * p->dilation_h);
    size_t x = (size_t)(columns.start + columns.first * p->dilation_w);
    bool is_empty = rows.end == 0 || columns.end == 0;
    return (dtn_cm_taps_s16_t){
        layer->input + (y * (size_t)p->in_w + x) * (size_t)p->in_c,
        layer->weights + (size_t)rows.first * (size_t)p->kernel_w + (size_t)columns.first,
        is_empty ? 0 : rows.end - rows.first,
        is_empty ? 0 : columns.end - columns.first,
    };
}

/** Channels whose sums are on the stack. */
enum { DTN_CM_S16_CHANNELS = 32 };

/** Outputs of `count` channels from `first` on. */
static inline void dtn_cm_channels_s16(const dtn_cm_image_s16_t *layer, const dtn_cm_taps_s16_t *taps, size_t first,
                                       size_t count, int16_t *output)
{
    const dtn_cm_convolution_s16_params_t *p = layer->p;
    const size_t column = (size_t)p->dilation_w * (size_t)p->in_c;
    const size_t row = (size_t)p->dilation_h * (size_t)p->in_w * (size_t)p->in_c;
    const size_t positions = (size_t)p->kernel_h * (size_t)p->kernel_w;
    const int8_t *weights = taps->weights + first * positions;
    int32_t sums[DTN_CM_S16_CHANNELS] = {0};
    for (size_t y = 0; y < (size_t)taps->rows; y++) {
        for (size_t x = 0; x < (size_t)taps->columns; x++) {
            const int16_t *inputs = taps->input + y * row + x * column + first;
            for (size_t i = 0; i < count; i++) {
                sums[i] += inputs[i] * weights[i * positions + x];
            }
        }
        weights += p->kernel_w;
    }
    for (size_t i = 0; i < count; i++) {
        output[first + i] = dtn_cm_scaled_s16(&layer->scale, first + i, sums[i]);
    }
}

/** All outputs. */
static inline void dtn_cm_depthwise_channels_s16(const dtn_cm_image_s16_t *layer)
{
    const dtn_cm_convolution_s16_params_t *p = layer->p;
    const size_t channels = (size_t)p->out_c;
    int16_t *output = layer->output;
    for (int32_t oy = 0; oy < p->out_h; oy++) {
        dtn_cm_window_t rows = dtn_cm_window(oy, p->stride_h, p->pad_h, p->kernel_h, p->dilation_h, p->in_h);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            dtn_cm_taps_s16_t taps = dtn_cm_taps_s16(layer, ox, rows);
            for (size_t first = 0; first < channels; first += DTN_CM_S16_CHANNELS) {
                size_t left = channels - first;
                dtn_cm_channels_s16(layer, &taps, first, left < DTN_CM_S16_CHANNELS ? left : DTN_CM_S16_CHANNELS,
                                    output);
            }
            output += channels;
        }
    }
}
