#include "../check/check.h"
#include "../single_rounding/single_rounding_factors.h"

/* Numbers that are constant during a call. */
typedef struct {
    const dtn_depthwise_conv2d_s8_params_t *p;
    dtn_cm_convolution_t layer; /* all channels; the scale is that of some */
    dtn_sr_sums_t sums;         /* for calls that the inner loops do not support */
} depthwise_t;

static bool is_usual(const dtn_depthwise_conv2d_s8_params_t *p)
{
    const int32_t numbers[] = {p->in_h,       p->in_w,       p->in_c,     p->out_h,    p->out_w,
                               p->out_c,      p->kernel_h,   p->kernel_w, p->stride_h, p->stride_w,
                               p->dilation_h, p->dilation_w, p->pad_top,  p->pad_left};
    return p->kernel_h <= DTN_CM_MAX_PRODUCTS / p->kernel_w &&
           dtn_sr_are_usual(numbers, sizeof numbers / sizeof *numbers);
}

/* Channels side by side from `first` on: any, or such of one input. */
static void some_channels(const depthwise_t *dw, size_t first, size_t count)
{
    dtn_sr_factors_t factors;
    dtn_cm_convolution_t layer = dw->layer;
    layer.input += first / (size_t)dw->p->multiplier;
    layer.weights += first;
    layer.bias += first;
    layer.output += first;
    layer.channels = count;
    layer.scale = dtn_sr_scale(&dw->sums.outputs, first, count, &factors);
    if (!dtn_sr_convolve_depthwise(&layer, NULL, 0)) {
        dtn_sr_by_sums(&dw->sums, first, count);
    }
}

static void run(const depthwise_t *dw)
{
    size_t channels = (size_t)dw->p->out_c;
    size_t alike = dw->p->multiplier == 1 ? channels : (size_t)dw->p->multiplier;
    if (!is_usual(dw->p)) {
        dtn_sr_by_sums(&dw->sums, 0, channels);
        return;
    }
    for (size_t first = 0, count; first < channels; first += count) {
        count = dtn_sr_channels(alike - first % alike);
        some_channels(dw, first, count);
    }
}

int32_t dtn_k_depthwise_conv2d_s8(const dtn_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return (int32_t)dtn_check_depthwise_conv2d_s8(call);
    }
    const dtn_operand_t *operands = call->operands;
    const dtn_depthwise_conv2d_s8_params_t *p = (const dtn_depthwise_conv2d_s8_params_t *)(const void *)call->params;
    const dtn_cm_windows_t windows = {
        DTN_SR_WINDOWS(p),
        .out_c = p->out_c,
        .groups = p->in_c,
    };
    const dtn_sr_sums_t sums = {
        .windows = &windows,
        .input = (const int8_t *)operands[DTN_DEPTHWISE_CONV2D_S8_INPUT].data,
        .weights = (const int8_t *)operands[DTN_DEPTHWISE_CONV2D_S8_WEIGHTS].data,
        .bias = (const int32_t *)(const void *)operands[DTN_DEPTHWISE_CONV2D_S8_BIAS].data,
        .output = (int8_t *)operands[DTN_DEPTHWISE_CONV2D_S8_OUTPUT].data,
        .outputs = {(const dtn_requant_row_t *)(const void *)operands[DTN_DEPTHWISE_CONV2D_S8_REQUANT].data,
                    p->requant_count == 1, p->out_zp, p->act_min, p->act_max},
        .depth = 1,
        .outputs_per_input = (size_t)p->multiplier,
        .channel_pitch = 1,
        .tap_pitch = (size_t)p->out_c,
    };
    const depthwise_t dw = {
        .p = p,
        .layer =
            {
                .p = &windows,
                .input = sums.input,
                .weights = sums.weights,
                .bias = sums.bias,
                .output = sums.output,
                .taps_pitch = (size_t)p->out_c,
            },
        .sums = sums,
    };
    run(&dw);
    return DTN_OK;
}
