#include "../check/check.h"
#include "../single_rounding/single_rounding_factors.h"

/* Numbers that are constant during a call. */
typedef struct {
    const dtn_conv2d_s8_params_t *p;
    dtn_cm_windows_t windows; /* the same for the inner loops */
    dtn_cm_group_t channels;  /* all; the scale is that of some */
    dtn_sr_sums_t sums;       /* for calls that the inner loops do not support */
    const dtn_operand_t *workspace;
} conv_t;

/* ---- Kernels of one by one: every pixel times the weights ---- */

static void points(const conv_t *conv, const dtn_cm_group_t *group)
{
    const dtn_conv2d_s8_params_t *p = conv->p;
    /* Pixels of the output are those of the input, consecutively, or a line at a time. */
    bool joined = p->stride_h == 1 && p->stride_w == 1 && p->out_h == p->in_h && p->out_w == p->in_w;
    int32_t lines = joined ? 1 : p->out_h;
    size_t line_bytes = (size_t)p->in_w * (size_t)p->in_c;
    dtn_cm_product_t product = {
        .weights = group->weights,
        .bias = group->bias,
        .output = group->output,
        .rows = joined ? (size_t)p->out_h * (size_t)p->out_w : (size_t)p->out_w,
        .depth = group->inputs,
        .channels = group->outputs,
        .input_pitch = (size_t)p->stride_w * (size_t)p->in_c,
        .output_pitch = (size_t)p->out_pitch,
        .input_offset = group->offset,
        .scale = group->scale,
    };
    for (int32_t b = 0; b < p->batches; b++) {
        for (int32_t line = 0; line < lines; line++) {
            product.input = group->input + ((size_t)b * (size_t)p->in_h + (size_t)(line * p->stride_h)) * line_bytes;
            dtn_sr_multiply(&product);
            product.output += product.rows * product.output_pitch;
        }
    }
}

/* ---- All ---- */

static bool is_usual(const conv_t *conv)
{
    const dtn_conv2d_s8_params_t *p = conv->p;
    const int32_t numbers[] = {p->in_h,     p->in_w,     p->out_h,      p->out_w,      p->kernel_h, p->kernel_w,
                               p->stride_h, p->stride_w, p->dilation_h, p->dilation_w, p->pad_top,  p->pad_left};
    return conv->channels.patch <= DTN_CM_MAX_PRODUCTS && dtn_sr_are_usual(numbers, sizeof numbers / sizeof *numbers);
}

static void some_channels(const conv_t *conv, size_t first, size_t count)
{
    const dtn_conv2d_s8_params_t *p = conv->p;
    dtn_sr_factors_t factors;
    dtn_cm_group_t group = conv->channels;
    group.weights += first * group.patch;
    group.bias += first;
    group.output += first;
    group.outputs = count;
    group.scale = dtn_sr_scale(&conv->sums.outputs, first, count, &factors);
    if (p->kernel_h == 1 && p->kernel_w == 1) {
        points(conv, &group);
    } else if (!dtn_sr_convolve(&group, conv->workspace->data, conv->workspace->bytes)) {
        dtn_sr_by_sums(&conv->sums, first, count);
    }
}

static void run(const conv_t *conv)
{
    size_t channels = conv->channels.outputs;
    if (!is_usual(conv)) {
        dtn_sr_by_sums(&conv->sums, 0, channels);
        return;
    }
    for (size_t first = 0, count; first < channels; first += count) {
        count = dtn_sr_channels(channels - first);
        some_channels(conv, first, count);
    }
}

int32_t dtn_k_conv2d_s8(const dtn_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return (int32_t)dtn_check_conv2d_s8(call);
    }
    const dtn_operand_t *operands = call->operands;
    const dtn_conv2d_s8_params_t *p = (const dtn_conv2d_s8_params_t *)(const void *)call->params;
    conv_t conv = {
        .p = p,
        .windows =
            {
                DTN_SR_WINDOWS(p),
                .out_c = p->out_pitch, /* from a pixel of the output to the next */
                .groups = 1,
            },
        .channels =
            {
                .input = (const int8_t *)operands[DTN_CONV2D_S8_INPUT].data,
                .weights = (const int8_t *)operands[DTN_CONV2D_S8_WEIGHTS].data,
                .bias = (const int32_t *)(const void *)operands[DTN_CONV2D_S8_BIAS].data,
                .output = (int8_t *)operands[DTN_CONV2D_S8_OUTPUT].data,
                .outputs = (size_t)p->out_c,
                .inputs = (size_t)p->in_c,
                .patch = (size_t)p->kernel_h * (size_t)p->kernel_w * (size_t)p->in_c,
                .joined = p->dilation_w == 1,
                .offset = -p->in_zp,
            },
        .workspace = &operands[DTN_CONV2D_S8_WORKSPACE],
    };
    conv.channels.p = &conv.windows;
    conv.sums = (dtn_sr_sums_t){
        .windows = &conv.windows,
        .input = conv.channels.input,
        .weights = conv.channels.weights,
        .bias = conv.channels.bias,
        .output = conv.channels.output,
        .outputs = {(const dtn_requant_row_t *)(const void *)operands[DTN_CONV2D_S8_REQUANT].data,
                    p->requant_count == 1, p->out_zp, p->act_min, p->act_max},
        .depth = conv.channels.inputs,
        .outputs_per_input = conv.channels.outputs,
        .channel_pitch = conv.channels.patch,
        .tap_pitch = conv.channels.inputs,
    };
    run(&conv);
    return DTN_OK;
}
