#include <string.h>

#include "dot_product_s8.h"
#include "inner_loops.h"
#include "window_runs.h"

static dtn_cm_group_t group_of(const dtn_cm_convolution_t *layer, size_t index)
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
    group.weights = layer->weights + first * group.patch;
    group.bias = layer->bias == NULL ? NULL : layer->bias + first;
    group.output = layer->output + first;
    group.scale = layer->scale;
    group.scale.multipliers += first;
    group.scale.shifts += first;
    return group;
}

/* ---- Convolutions that the inner loops do not support: every run is read in place ---- */

/* Adjacent channels: their rows of weights, and the start values of their sums. */
typedef struct {
    const int8_t *rows[DTN_CM_ROWS];
    uint32_t starts[DTN_CM_ROWS];
    size_t first;
    size_t count;
} channels_t;

/* The term of the input's offset in a kernel sum. The sum omits it, so that padding adds nothing. */
static uint32_t input_offset_term(const dtn_cm_group_t *group, const int8_t *weights)
{
    int32_t sum = 0;
    for (size_t k = 0; k < group->patch; k++) {
        sum += weights[k];
    }
    return (uint32_t)(sum * group->p->in_offset);
}

static channels_t channels_from(const dtn_cm_group_t *group, size_t first)
{
    size_t left = group->outputs - first;
    channels_t channels = {.first = first, .count = left < DTN_CM_ROWS ? left : DTN_CM_ROWS};
    dtn_cm_rows_of(group->weights, group->patch, first, group->outputs, channels.rows);
    for (size_t j = 0; j < channels.count; j++) {
        channels.starts[j] = group->bias == NULL ? 0U : (uint32_t)group->bias[first + j];
        if (group->p->has_kernel_sum == 1) {
            channels.starts[j] -= input_offset_term(group, channels.rows[j]);
        }
    }
    return channels;
}

static void one_pixel(const dtn_cm_group_t *group, const dtn_cm_place_t *place, const channels_t *channels)
{
    uint32_t sums[DTN_CM_ROWS];
    memcpy(sums, channels->starts, sizeof sums);
    for (int32_t ky = place->rows.first; ky < place->rows.end; ky++) {
        for (int32_t kx = place->columns.first; kx < place->columns.end; kx = dtn_cm_next_run(group, place, kx)) {
            dtn_cm_run_t run = dtn_cm_run(group, place, ky, kx);
            dtn_cm_add_dots(run.input, group->p->in_offset, channels->rows, run.at, run.count, sums);
        }
    }
    for (size_t j = 0; j < channels->count; j++) {
        size_t channel = channels->first + j;
        dtn_cm_factor_t factor = dtn_cm_factor(&group->scale, channel);
        place->output[channel] = dtn_cm_scaled(&group->scale, &factor, sums[j]);
    }
}

static void all_pixels(const dtn_cm_group_t *group, const channels_t *channels)
{
    const dtn_cm_windows_t *p = group->p;
    dtn_cm_place_t place = {.image = group->input, .output = group->output};
    for (int32_t b = 0; b < p->batches; b++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            place.rows = dtn_cm_window(oy, p->stride_h, p->pad_h, p->kernel_h, p->dilation_h, p->in_h);
            for (int32_t ox = 0; ox < p->out_w; ox++) {
                place.columns = dtn_cm_window(ox, p->stride_w, p->pad_w, p->kernel_w, p->dilation_w, p->in_w);
                one_pixel(group, &place, channels);
                place.output += p->out_c;
            }
        }
        place.image += (size_t)p->in_h * (size_t)p->in_w * (size_t)p->in_c;
    }
}

static void in_place(const dtn_cm_group_t *group)
{
    for (size_t first = 0; first < group->outputs; first += DTN_CM_ROWS) {
        channels_t channels = channels_from(group, first);
        all_pixels(group, &channels);
    }
}

/* ---- Kernels of one by one without padding: every row of the map times the weights ---- */

static void points(const dtn_cm_group_t *group)
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
        .scale = group->scale,
    };
    size_t line_bytes = (size_t)p->in_w * (size_t)p->in_c;
    for (int32_t b = 0; b < (joined ? 1 : p->batches); b++) {
        product.input = group->input + (size_t)b * (size_t)p->in_h * line_bytes;
        for (int32_t oy = 0; oy < (joined ? 1 : p->out_h); oy++) {
            dtn_cm_multiply(&product);
            product.input += (size_t)p->stride_h * line_bytes;
            product.output += product.rows * product.output_pitch;
        }
    }
}

/* An axis may have one more output than the map has windows: that one is padding. */
static bool is_point(const dtn_cm_windows_t *p)
{
    return p->kernel_h == 1 && p->kernel_w == 1 && p->pad_h == 0 && p->pad_w == 0 &&
           (p->out_h - 1) * p->stride_h < p->in_h && (p->out_w - 1) * p->stride_w < p->in_w;
}

static void run(const dtn_cm_convolution_t *layer, const dtn_tensor_t *scratch)
{
    const dtn_cm_windows_t *p = layer->p;
    for (size_t i = 0; i < (size_t)p->groups; i++) {
        dtn_cm_group_t group = group_of(layer, i);
        if (is_point(p)) {
            points(&group);
        } else if (!dtn_cm_convolve(&group, scratch->data, scratch->bytes)) {
            in_place(&group);
        }
    }
}

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!dtn_cm_is_convolution(call, 1)) {
        return false;
    }
    const dtn_cm_windows_t *p = DTN_CM_PARAMS(call, dtn_cm_windows_t);
    return dtn_cm_has_rows(p) && dtn_cm_is_axis(p->in_w, p->out_w, p->kernel_w, p->stride_w, p->pad_w, p->dilation_w);
}

int32_t dtn_cm_quantized_conv2d(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    dtn_cm_convolution_t layer;
    if (!dtn_cm_convolution(call, &layer)) {
        return DTN_REASON_OPERATOR;
    }
    dtn_cm_windows_t row;
    dtn_cm_column_as_row(&layer, &row);
    run(&layer, &call->values[call->input_count]);
    return DTN_OK;
}
