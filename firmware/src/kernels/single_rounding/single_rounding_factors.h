/**
 * @file
 * Shared by the kernels with weights on a device: the inner loops of the Cortex-M operators (cortex_m/inner_loops.h),
 * compiled to round once (kernels/single_rounding), and their factors.
 */
#pragma once

#include "../../cortex_m/inner_loops.h"
#include "../requant.h"

/** Channels whose factors are on the stack at once. */
enum { DTN_SR_CHANNELS = 64 };

/** The factors of some channels in the inner loops' layout. */
typedef struct {
    int32_t multipliers[DTN_SR_CHANNELS];
    int32_t shifts[DTN_SR_CHANNELS];
} dtn_sr_factors_t;

/** Rows of requantization, one per channel or one for all, and zero point and limits of the output. */
typedef struct {
    const dtn_requant_row_t *rows;
    bool is_shared;
    int32_t zero_point;
    int32_t lo;
    int32_t hi;
} dtn_sr_outputs_t;

/** How many of `left` channels come next: so many that the last are not just a few. */
size_t dtn_sr_channels(size_t left);

/** The scale of such a number of channels from `first` on; it refers to `factors`, which it fills. */
dtn_cm_scale_t dtn_sr_scale(const dtn_sr_outputs_t *outputs, size_t first, size_t count, dtn_sr_factors_t *factors);

/** That of any number of channels which share a row. Depthwise convolutions do not take it. */
dtn_cm_scale_t dtn_sr_shared_scale(const dtn_sr_outputs_t *outputs, dtn_sr_factors_t *factors);

/** The output of a channel for its sum, by the row itself. */
int8_t dtn_sr_output(const dtn_sr_outputs_t *outputs, size_t channel, uint32_t sum);

/** A convolution as sums of products, for calls that the inner loops do not support. */
typedef struct {
    const dtn_cm_windows_t *windows; /**< `out_c` is from a pixel of the output to the next */
    const int8_t *input;
    const int8_t *weights;
    const int32_t *bias;
    int8_t *output;
    dtn_sr_outputs_t outputs;
    size_t depth;             /**< channels of the input that an output sees, side by side */
    size_t outputs_per_input; /**< so many outputs see the same; the next begin at the next channel of the input */
    size_t channel_pitch;     /**< from an output's first weight to the next output's */
    size_t tap_pitch;         /**< from the weights of a position of the kernel to those of the next */
} dtn_sr_sums_t;

/** direct_sums.c: outputs `first` to `first + count - 1` of all pixels; numbers may be such as the inner loops do not
 * take.
 */
void dtn_sr_by_sums(const dtn_sr_sums_t *sums, size_t first, size_t count);

/** Fields of `dtn_cm_windows_t` for the parameters `p` of a kernel, except channels of the output and groups. */
#define DTN_SR_WINDOWS(p)                                                                                              \
    .batches = (p)->batches, .in_h = (p)->in_h, .in_w = (p)->in_w, .in_c = (p)->in_c, .out_h = (p)->out_h,             \
    .out_w = (p)->out_w, .kernel_h = (p)->kernel_h, .kernel_w = (p)->kernel_w, .stride_h = (p)->stride_h,              \
    .stride_w = (p)->stride_w, .pad_h = (p)->pad_top, .pad_w = (p)->pad_left, .dilation_h = (p)->dilation_h,           \
    .dilation_w = (p)->dilation_w, .in_offset = -(p)->in_zp

/** True for dimensions, strides and such whose positions fit the inner loops' 32 bits. */
bool dtn_sr_are_usual(const int32_t *numbers, size_t count);

/* Functions of kernels/single_rounding. */
void dtn_sr_multiply(const dtn_cm_product_t *product);
bool dtn_sr_convolve(const dtn_cm_group_t *group, void *scratch, size_t bytes);
bool dtn_sr_convolve_depthwise(const dtn_cm_convolution_t *layer, void *scratch, size_t bytes);
int8_t dtn_sr_scaled_general(const dtn_cm_scale_t *scale, const dtn_cm_factor_t *factor, uint32_t sum);
