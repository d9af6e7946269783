/**
 * @file
 * Depthwise convolutions that the inner loops do not support: sum by sum.
 */
#pragma once

#include "inner_loops.h"

/* The sum of a channel, in unsigned arithmetic, where overflow is defined. */
static inline uint32_t dtn_cm_depthwise_sum(const dtn_cm_convolution_t *layer, const int8_t *image,
                                            dtn_cm_window_t rows, dtn_cm_window_t columns, size_t channel)
{
    const dtn_cm_windows_t *p = layer->p;
    size_t input = channel / (size_t)(p->out_c / p->in_c);
    uint32_t sum = dtn_cm_bias(layer, channel);
    for (int32_t ky = rows.first; ky < rows.end; ky++) {
        for (int32_t kx = columns.first; kx < columns.end; kx++) {
            size_t y = (size_t)(rows.start + ky * p->dilation_h);
            size_t x = (size_t)(columns.start + kx * p->dilation_w);
            size_t tap = (size_t)(ky * p->kernel_w + kx) * layer->taps_pitch + channel;
            int32_t value = image[(y * (size_t)p->in_w + x) * (size_t)p->in_c + input] + p->in_offset;
            sum += (uint32_t)(value * layer->weights[tap]);
        }
    }
    return sum;
}

/** All pixels. */
static inline void dtn_cm_depthwise_in_place(const dtn_cm_convolution_t *layer)
{
    const dtn_cm_windows_t *p = layer->p;
    const int8_t *image = layer->input;
    int8_t *out = layer->output;
    for (int32_t b = 0; b < p->batches; b++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            dtn_cm_window_t rows = dtn_cm_window(oy, p->stride_h, p->pad_h, p->kernel_h, p->dilation_h, p->in_h);
            for (int32_t ox = 0; ox < p->out_w; ox++) {
                dtn_cm_window_t columns = dtn_cm_window(ox, p->stride_w, p->pad_w, p->kernel_w, p->dilation_w, p->in_w);
                for (size_t channel = 0; channel < layer->channels; channel++) {
                    dtn_cm_factor_t factor = dtn_cm_factor(&layer->scale, channel);
                    out[channel] = dtn_cm_scaled(&layer->scale, &factor,
                                                 dtn_cm_depthwise_sum(layer, image, rows, columns, channel));
                }
                out += p->out_c;
            }
        }
        image += (size_t)p->in_h * (size_t)p->in_w * (size_t)p->in_c;
    }
}
