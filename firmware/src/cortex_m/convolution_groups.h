/**
 * @file
 * The groups of a convolution, and kernels of one by one, for int8 and packed weights.
 */
#pragma once

#include "inner_loops.h"

/** Group `index` of a convolution, each with `rows` rows of weights. */
static inline dtn_cm_group_t dtn_cm_group_of(const dtn_cm_convolution_t *layer, size_t index, size_t rows)
{
    const dtn_cm_windows_t *p = layer->p;
    dtn_cm_group_t group = {
        .p = p,
        .joined = p->groups == 1 && p->dilation_w == 1,
        .offset = p->has_kernel_sum == 1 ? 0 : p->in_offset,
        .pad_value = p->has_kernel_sum == 1 ? -p->in_offset : 0,
    };
    group.inputs = (size_t)(p->in_c / p->groups);
    group.outputs = (size_t)(p->out_c / p->groups);
    group.patch = (size_t)p->kernel_h * (size_t)p->kernel_w * group.inputs;
    size_t first = index * group.outputs;
    group.input = layer->input + index * group.inputs;
    group.weights = layer->weights + index * rows * group.patch;
    group.bias = layer->bias == NULL ? NULL : layer->bias + first;
    group.output = layer->output + first;
    group.scale = layer->scale;
    group.scale.multipliers += first;
    group.scale.shifts += first;
    return group;
}

/**
 * A kernel of one by one without padding: every row of the map times the weights, by this function. Compiled for each,
 * since a pointer to it would leave the stack's bound unknown.
 */
static inline __attribute__((always_inline)) void dtn_cm_points(const dtn_cm_group_t *group,
                                                                void (*multiply)(const dtn_cm_product_t *))
{
    const dtn_cm_windows_t *p = group->p;
    bool joined = p->stride_h == 1 && p->stride_w == 1;
    size_t lines = (size_t)p->batches * (size_t)p->out_h;
    dtn_cm_product_t product = {
        .input = group->input,
        .weights = group->weights,
        .bias = group->bias,
        .output = group->output,
        .rows = joined ? lines * (size_t)p->out_w : (size_t)p->out_w,
        .depth = group->inputs,
        .channels = group->outputs,
        .input_pitch = (size_t)p->stride_w * (size_t)p->in_c,
        .output_pitch = (size_t)p->out_c,
        .input_offset = group->offset,
        .has_s16_weights = group->has_s16_weights,
        .scale = group->scale,
    };
    size_t line_bytes = (size_t)p->in_w * (size_t)p->in_c;
    for (int32_t b = 0; b < (joined ? 1 : p->batches); b++) {
        product.input = group->input + (size_t)b * (size_t)p->in_h * line_bytes;
        for (int32_t oy = 0; oy < (joined ? 1 : p->out_h); oy++) {
            multiply(&product);
            product.input += (size_t)p->stride_h * line_bytes;
            product.output += product.rows * product.output_pitch;
        }
    }
}

/** True for such a kernel. An axis may have one more output than the map has windows: that one is padding. */
static inline bool dtn_cm_is_point(const dtn_cm_windows_t *p)
{
    return p->kernel_h == 1 && p->kernel_w == 1 && p->pad_h == 0 && p->pad_w == 0 &&
           (p->out_h - 1) * p->stride_h < p->in_h && (p->out_w - 1) * p->stride_w < p->in_w;
}
