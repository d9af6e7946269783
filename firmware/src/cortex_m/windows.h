/**
 * @file
 * Shared by the convolutions: the checks of a call, and the part of a window that is inside the map.
 */
#pragma once

#include "dot_product_s8.h"
#include "scale.h"

/** The record of each convolution. */
typedef dtn_cm_quantized_conv2d_params_t dtn_cm_windows_t;

/** Largest dimension, stride, dilation and pad: all positions computed from them fit 32 bits. */
#define DTN_CM_MAX_DIMENSION 32767

/** A checked call, with its values where they are used. */
typedef struct {
    const dtn_cm_windows_t *p;
    const int8_t *input;
    const int8_t *weights;
    const int32_t *bias; /**< or kernel sums: one per channel, or NULL */
    int8_t *output;
    size_t channels;   /**< of the output: all, or some that lie side by side */
    size_t taps_pitch; /**< of a depthwise convolution: elements from a position of the kernel to the next */
    dtn_cm_scale_t scale;
} dtn_cm_convolution_t;

/**
 * True for a call whose numbers and sizes fit each other, but for those that the operators differ in: how large the
 * output is, and how many inputs each channel sees. `scratch` values are written besides the output.
 */
bool dtn_cm_is_convolution(const dtn_operator_call_t *call, uint32_t scratch);

/** The same for a call whose weights have another type or size, which is not checked. */
bool dtn_cm_are_windows(const dtn_operator_call_t *call, uint32_t scratch);

/** True if an axis of the output has the length of a convolution's, with `pad` on both sides, or one more at the end.
 */
bool dtn_cm_is_axis(int32_t in, int32_t out, int32_t kernel, int32_t stride, int32_t pad, int32_t dilation);

/**
 * True if the height of the output is the convolution's, or its rows are some of a larger output's. In the second case,
 * `in_h` is the number of rows that they depend on, and `pad_h` the number of rows above these. The first window
 * overlaps them, the last one starts on them, and rows below them are padding. Maps of several batches have all rows.
 */
bool dtn_cm_has_rows(const dtn_cm_windows_t *p);

/** The values of a call that has been checked; false when its factors are out of range. */
bool dtn_cm_convolution(const dtn_operator_call_t *call, dtn_cm_convolution_t *convolution);

/**
 * A map that is one pixel wide has the same bytes as one that is one pixel high. The inner loops go along rows, so a
 * convolution on such a map exchanges its axes; `row` then has its numbers.
 */
static inline void dtn_cm_column_as_row(dtn_cm_convolution_t *convolution, dtn_cm_windows_t *row)
{
    const dtn_cm_windows_t *p = convolution->p;
    if (p->in_w != 1 || p->out_w != 1 || p->kernel_w != 1 || p->pad_w != 0) {
        return;
    }
    *row = *p;
    row->in_h = 1;
    row->in_w = p->in_h;
    row->out_h = 1;
    row->out_w = p->out_h;
    row->kernel_h = 1;
    row->kernel_w = p->kernel_h;
    row->stride_h = p->stride_w;
    row->stride_w = p->stride_h;
    row->pad_h = 0;
    row->pad_w = p->pad_h;
    row->dilation_h = p->dilation_w;
    row->dilation_w = p->dilation_h;
    convolution->p = row;
}

/**
 * Defines the operator of a convolution. `is_valid` checks a call, and `run` gets the layer, whose column may have
 * become a row, and the first written value.
 */
#define DTN_CM_CONVOLUTION(name, is_valid, run)                                                                        \
    int32_t name(const dtn_operator_call_t *call, dtn_phase_t phase)                                                   \
    {                                                                                                                  \
        if (phase == DTN_PHASE_CHECK) {                                                                                \
            return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;                                                      \
        }                                                                                                              \
        dtn_cm_convolution_t layer;                                                                                    \
        if (!dtn_cm_convolution(call, &layer)) {                                                                       \
            return DTN_REASON_OPERATOR;                                                                                \
        }                                                                                                              \
        dtn_cm_windows_t row;                                                                                          \
        dtn_cm_column_as_row(&layer, &row);                                                                            \
        run(&layer, &call->values[call->input_count]);                                                                 \
        return DTN_OK;                                                                                                 \
    }

/** The number of adjacent channels of a depthwise convolution of one kind: all, or those of one input. */
static inline size_t dtn_cm_channels_per_input(const dtn_cm_convolution_t *convolution)
{
    size_t of_one = (size_t)(convolution->p->out_c / convolution->p->in_c);
    return of_one == 1 || of_one > convolution->channels ? convolution->channels : of_one;
}

/** The bias of a channel. */
static inline uint32_t dtn_cm_bias(const dtn_cm_convolution_t *convolution, size_t channel)
{
    return convolution->bias == NULL ? 0U : (uint32_t)convolution->bias[channel];
}

/** Kernel positions first..end-1 of a window lie on the map; position k reads start + k * dilation. None: all are 0. */
typedef struct {
    int32_t start;
    int32_t first;
    int32_t end;
} dtn_cm_window_t;

/** The window of output position `out` on an axis of `in` elements. */
static inline dtn_cm_window_t dtn_cm_window(int32_t out, int32_t stride, int32_t pad, int32_t kernel, int32_t dilation,
                                            int32_t in)
{
    int32_t start = out * stride - pad;
    dtn_cm_window_t window = {start, 0, kernel};
    if (start < 0) {
        window.first = (dilation - 1 - start) / dilation;
    }
    if (start + (kernel - 1) * dilation >= in) {
        window.end = start < in ? (in - start + dilation - 1) / dilation : 0;
    }
    if (window.first >= window.end) {
        /* Outside of the map: use a start inside, so that addresses computed from it exist. */
        return (dtn_cm_window_t){0, 0, 0};
    }
    return window;
}

/** An axis of the maps of a convolution. */
typedef struct {
    int32_t in;
    int32_t out;
    int32_t kernel;
    int32_t stride;
    int32_t pad;
    int32_t dilation;
    size_t in_step; /**< elements from a position to the next */
    size_t out_step;
} dtn_cm_axis_t;

/** The axes of a convolution's record `p`, of int8 or int16 inputs. */
#define DTN_CM_AXIS_X(p)                                                                                               \
    ((dtn_cm_axis_t){(p)->in_w, (p)->out_w, (p)->kernel_w, (p)->stride_w, (p)->pad_w, (p)->dilation_w,                 \
                     (size_t)(p)->in_c, (size_t)(p)->out_c})
#define DTN_CM_AXIS_Y(p)                                                                                               \
    ((dtn_cm_axis_t){(p)->in_h, (p)->out_h, (p)->kernel_h, (p)->stride_h, (p)->pad_h, (p)->dilation_h,                 \
                     (size_t)(p)->in_w * (size_t)(p)->in_c, (size_t)(p)->out_w * (size_t)(p)->out_c})

/** Outputs first..end-1 of a line have windows without columns in the padding; there may be none. */
typedef struct {
    int32_t first;
    int32_t end;
} dtn_cm_inside_t;

static inline dtn_cm_inside_t dtn_cm_inside(const dtn_cm_windows_t *p)
{
    int32_t span = p->in_w + p->pad_w - (p->kernel_w - 1) * p->dilation_w;
    int32_t first = (p->pad_w + p->stride_w - 1) / p->stride_w;
    int32_t end = span > 0 ? (span - 1) / p->stride_w + 1 : 0;
    /* A line may be shorter than the map allows. */
    end = end < p->out_w ? end : p->out_w;
    return (dtn_cm_inside_t){first < end ? first : end, end};
}
