#include "../check/check.h"
#include "../once/once.h"
#include "../window.h"

/* What stays the same through a call. */
typedef struct {
    const dtn_depthwise_conv2d_s8_params_t *p;
    dtn_cm_convolution_t layer; /* all channels; the scale is that of some */
    dtn_once_outputs_t outputs;
} depthwise_t;

/* ---- What the inner work does not take: sum by sum ---- */

static uint32_t sum_of(const depthwise_t *dw, const int8_t *image, dtn_window_t rows, dtn_window_t columns,
                       size_t channel)
{
    const dtn_depthwise_conv2d_s8_params_t *p = dw->p;
    size_t input = channel / (size_t)p->multiplier;
    uint32_t sum = (uint32_t)dw->layer.bias[channel];
    for (int32_t ky = rows.first; ky < rows.end; ky++) {
        for (int32_t kx = columns.first; kx < columns.end; kx++) {
            size_t y = (size_t)(rows.start + (int64_t)ky * p->dilation_h);
            size_t x = (size_t)(columns.start + (int64_t)kx * p->dilation_w);
            size_t tap = (size_t)ky * (size_t)p->kernel_w + (size_t)kx;
            int32_t value = image[(y * (size_t)p->in_w + x) * (size_t)p->in_c + input] - p->in_zp;
            sum += (uint32_t)(value * dw->layer.weights[tap * (size_t)p->out_c + channel]);
        }
    }
    return sum;
}

/* Some channels from `first` on of all pixels. */
static void by_sums(const depthwise_t *dw, size_t first, size_t count)
{
    const dtn_depthwise_conv2d_s8_params_t *p = dw->p;
    const int8_t *image = dw->layer.input;
    int8_t *out = dw->layer.output;
    for (int32_t b = 0; b < p->batches; b++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            dtn_window_t rows = dtn_window(oy, p->stride_h, p->pad_top, p->kernel_h, p->dilation_h, p->in_h);
            for (int32_t ox = 0; ox < p->out_w; ox++) {
                dtn_window_t columns = dtn_window(ox, p->stride_w, p->pad_left, p->kernel_w, p->dilation_w, p->in_w);
                for (size_t channel = first; channel < first + count; channel++) {
                    uint32_t sum = sum_of(dw, image, rows, columns, channel);
                    out[channel] = dtn_once_output(&dw->outputs, channel, sum);
                }
                out += p->out_c;
            }
        }
        image += (size_t)p->in_h * (size_t)p->in_w * (size_t)p->in_c;
    }
}

/* ---- All ---- */

static bool is_usual(const dtn_depthwise_conv2d_s8_params_t *p)
{
    const int32_t numbers[] = {p->in_h,       p->in_w,       p->in_c,     p->out_h,    p->out_w,
                               p->out_c,      p->kernel_h,   p->kernel_w, p->stride_h, p->stride_w,
                               p->dilation_h, p->dilation_w, p->pad_top,  p->pad_left};
    return p->kernel_h <= DTN_CM_MAX_PRODUCTS / p->kernel_w &&
           dtn_once_are_usual(numbers, sizeof numbers / sizeof *numbers);
}

/* Channels side by side from `first` on: any, or such of one input. */
static void some_channels(const depthwise_t *dw, size_t first, size_t count)
{
    dtn_once_factors_t factors;
    dtn_cm_convolution_t layer = dw->layer;
    layer.input += first / (size_t)dw->p->multiplier;
    layer.weights += first;
    layer.bias += first;
    layer.output += first;
    layer.channels = count;
    layer.scale = dtn_once_scale(&dw->outputs, first, count, &factors);
    if (!dtn_once_convolve_depthwise(&layer, NULL, 0)) {
        by_sums(dw, first, count);
    }
}

static void run(const depthwise_t *dw)
{
    size_t channels = (size_t)dw->p->out_c;
    size_t alike = dw->p->multiplier == 1 ? channels : (size_t)dw->p->multiplier;
    if (!is_usual(dw->p)) {
        by_sums(dw, 0, channels);
        return;
    }
    for (size_t first = 0, count; first < channels; first += count) {
        count = dtn_once_channels(alike - first % alike);
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
        .batches = p->batches,
        .in_h = p->in_h,
        .in_w = p->in_w,
        .in_c = p->in_c,
        .out_h = p->out_h,
        .out_w = p->out_w,
        .out_c = p->out_c,
        .kernel_h = p->kernel_h,
        .kernel_w = p->kernel_w,
        .stride_h = p->stride_h,
        .stride_w = p->stride_w,
        .pad_h = p->pad_top,
        .pad_w = p->pad_left,
        .dilation_h = p->dilation_h,
        .dilation_w = p->dilation_w,
        .groups = p->in_c,
        .in_offset = -p->in_zp,
    };
    const depthwise_t dw = {
        .p = p,
        .layer =
            {
                .p = &windows,
                .input = (const int8_t *)operands[DTN_DEPTHWISE_CONV2D_S8_INPUT].data,
                .weights = (const int8_t *)operands[DTN_DEPTHWISE_CONV2D_S8_WEIGHTS].data,
                .bias = (const int32_t *)(const void *)operands[DTN_DEPTHWISE_CONV2D_S8_BIAS].data,
                .output = (int8_t *)operands[DTN_DEPTHWISE_CONV2D_S8_OUTPUT].data,
            },
        .outputs = {(const dtn_requant_row_t *)(const void *)operands[DTN_DEPTHWISE_CONV2D_S8_REQUANT].data,
                    p->requant_count == 1, p->out_zp, p->act_min, p->act_max},
    };
    run(&dw);
    return DTN_OK;
}
