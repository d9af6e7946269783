/**
 * @file
 * The outputs of some channels of a depthwise convolution of int16 inputs, line by line along the longer axis. One call
 * makes consecutive outputs whose windows have the same positions on the map.
 */
#pragma once

#include "depthwise_channels_s16.h"
#include "inner_loops_s16.h"

/** The part of a window that is on the map. */
typedef struct {
    const int16_t *input; /**< of the first channel at the first position */
    size_t tap;           /**< number of that position in the kernel */
    int32_t rows;
    int32_t columns;
    size_t column;   /**< elements from a position to the next in a row */
    size_t row;      /**< from a row to the next */
    size_t left_out; /**< columns of the kernel that are not on the map */
} dtn_cm_line_s16_t;

/** Makes `count` outputs along an axis, from the first one's window on. */
typedef void dtn_cm_same_windows_s16_t(const void *channels, const dtn_cm_line_s16_t *taps, const dtn_cm_axis_t *along,
                                       int32_t count, int16_t *output);

static inline dtn_cm_window_t dtn_cm_axis_window_s16(const dtn_cm_axis_t *axis, int32_t out)
{
    return dtn_cm_window(out, axis->stride, axis->pad, axis->kernel, axis->dilation, axis->in);
}

/* The number of outputs from here on that have whole windows along an axis; 1 if this one has none. */
static inline int32_t dtn_cm_whole_windows_s16(const dtn_cm_axis_t *axis, dtn_cm_window_t window, int32_t out)
{
    if (window.end - window.first != axis->kernel) {
        return 1;
    }
    const int32_t most = (axis->in - (axis->kernel - 1) * axis->dilation - 1 + axis->pad) / axis->stride + 1;
    return (most < axis->out ? most : axis->out) - out;
}

/* Elements from the start of the map to a window. */
static inline size_t dtn_cm_axis_place_s16(const dtn_cm_axis_t *axis, dtn_cm_window_t window)
{
    return (size_t)(window.start + window.first * axis->dilation) * axis->in_step;
}

/**
 * All outputs of channels from `first` on. Compiled for each function, since a pointer to it would leave the stack's
 * bound unknown.
 */
static inline __attribute__((always_inline)) void dtn_cm_depthwise_lines_s16(const dtn_cm_image_s16_t *layer,
                                                                             size_t first, const void *channels,
                                                                             dtn_cm_same_windows_s16_t *same_windows)
{
    const dtn_cm_axis_t x = DTN_CM_AXIS_X(layer->p);
    const dtn_cm_axis_t y = DTN_CM_AXIS_Y(layer->p);
    const bool is_x = x.out >= y.out;
    const dtn_cm_axis_t *along = is_x ? &x : &y;
    const dtn_cm_axis_t *across = is_x ? &y : &x;
    dtn_cm_line_s16_t taps = {.column = (size_t)x.dilation * x.in_step, .row = (size_t)y.dilation * y.in_step};
    for (int32_t line = 0; line < across->out; line++) {
        const dtn_cm_window_t own = dtn_cm_axis_window_s16(across, line);
        int16_t *output = layer->output + first + (size_t)line * across->out_step;
        int32_t count;
        for (int32_t at = 0; at < along->out; at += count) {
            const dtn_cm_window_t other = dtn_cm_axis_window_s16(along, at);
            const dtn_cm_window_t rows = is_x ? own : other;
            const dtn_cm_window_t columns = is_x ? other : own;
            taps.input =
                layer->input + first + dtn_cm_axis_place_s16(across, own) + dtn_cm_axis_place_s16(along, other);
            taps.tap = (size_t)(rows.first * x.kernel + columns.first);
            taps.rows = rows.end - rows.first;
            taps.columns = columns.end - columns.first;
            taps.left_out = (size_t)(x.kernel - taps.columns);
            count = dtn_cm_whole_windows_s16(along, other, at);
            same_windows(channels, &taps, along, count, output);
            output += (size_t)count * along->out_step;
        }
    }
}

/** Largest kernel of a chunk: some channels that are computed together, with their weights and factors. */
enum { DTN_CM_S16_CHUNK_TAPS = 49 };

/** Fills a chunk with the channels from `first` on. */
typedef void dtn_cm_make_chunk_s16_t(const dtn_cm_image_s16_t *layer, size_t first, void *chunk);

/** Fills the output of a layer, `count` channels at a time; layers that no chunk takes are computed channel by channel.
 */
static inline __attribute__((always_inline)) void dtn_cm_depthwise_chunks_s16(const dtn_cm_image_s16_t *layer,
                                                                              size_t count, void *chunk,
                                                                              dtn_cm_make_chunk_s16_t *make_chunk,
                                                                              dtn_cm_same_windows_s16_t *same_windows)
{
    const dtn_cm_convolution_s16_params_t *p = layer->p;
    const size_t channels = (size_t)p->out_c;
    if (channels < count || p->kernel_h * p->kernel_w > DTN_CM_S16_CHUNK_TAPS ||
        layer->scale.least_shift < DTN_CM_S16_LEAST_SHIFT) {
        dtn_cm_depthwise_channels_s16(layer);
        return;
    }
    for (size_t next = 0; next < channels; next += count) {
        /* Some of the last channels may be made once more. */
        const size_t first = channels - next < count ? channels - count : next;
        make_chunk(layer, first, chunk);
        dtn_cm_depthwise_lines_s16(layer, first, chunk, same_windows);
    }
}
