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

/** The sum of channel `c`. */
static inline int32_t dtn_cm_channel_sum_s16(const dtn_cm_convolution_s16_params_t *p, const dtn_cm_taps_s16_t *taps,
                                             size_t c)
{
    const size_t column = (size_t)p->dilation_w * (size_t)p->in_c;
    const size_t row = (size_t)p->dilation_h * (size_t)p->in_w * (size_t)p->in_c;
    const int16_t *input = taps->input + c;
    const int8_t *weights = taps->weights + c * (size_t)p->kernel_h * (size_t)p->kernel_w;
    int32_t sum = 0;
    for (int32_t y = 0; y < taps->rows; y++) {
        for (size_t x = 0; x < (size_t)taps->columns; x++) {
            sum += input[x * column] * weights[x];
        }
        input += row;
        weights += p->kernel_w;
    }
    return sum;
}

/** All outputs of channels `first` and up. */
static inline void dtn_cm_depthwise_channels_s16(const dtn_cm_image_s16_t *layer, size_t first)
{
    const dtn_cm_convolution_s16_params_t *p = layer->p;
    int16_t *output = layer->output;
    for (int32_t oy = 0; oy < p->out_h; oy++) {
        dtn_cm_window_t rows = dtn_cm_window(oy, p->stride_h, p->pad_h, p->kernel_h, p->dilation_h, p->in_h);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            dtn_cm_taps_s16_t taps = dtn_cm_taps_s16(layer, ox, rows);
            for (size_t c = first; c < (size_t)p->out_c; c++) {
                output[c] = dtn_cm_scaled_s16(&layer->scale, c, dtn_cm_channel_sum_s16(p, &taps, c));
            }
            output += p->out_c;
        }
    }
}
