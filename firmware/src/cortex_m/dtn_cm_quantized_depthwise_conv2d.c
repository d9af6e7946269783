#include "inner_loops.h"

/* ---- Convolutions that the inner loops do not support: sum by sum ---- */

/* The sum of a channel, in unsigned arithmetic, where overflow is defined. */
static uint32_t sum_of(const dtn_cm_convolution_t *layer, const int8_t *image, dtn_cm_window_t rows,
                       dtn_cm_window_t columns, size_t channel)
{
    const dtn_cm_windows_t *p = layer->p;
    size_t input = channel / (size_t)(p->out_c / p->in_c);
    uint32_t sum = dtn_cm_bias(layer, channel);
    for (int32_t ky = rows.first; ky < rows.end; ky++) {
        for (int32_t kx = columns.first; kx < columns.end; kx++) {
            size_t y = (size_t)(rows.start + ky * p->dilation_h);
            size_t x = (size_t)(columns.start + kx * p->dilation_w);
            size_t tap = (size_t)(ky * p->kernel_w + kx) * (size_t)p->out_c + channel;
            int32_t value = image[(y * (size_t)p->in_w + x) * (size_t)p->in_c + input] + p->in_offset;
            sum += (uint32_t)(value * layer->weights[tap]);
        }
    }
    return sum;
}

static void all_pixels(const dtn_cm_convolution_t *layer)
{
    const dtn_cm_windows_t *p = layer->p;
    const int8_t *image = layer->input;
    int8_t *out = layer->output;
    for (int32_t b = 0; b < p->batches; b++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            dtn_cm_window_t rows = dtn_cm_window(oy, p->stride_h, p->pad_h, p->kernel_h, p->dilation_h, p->in_h);
            for (int32_t ox = 0; ox < p->out_w; ox++) {
                dtn_cm_window_t columns = dtn_cm_window(ox, p->stride_w, p->pad_w, p->kernel_w, p->dilation_w, p->in_w);
                for (size_t channel = 0; channel < (size_t)p->out_c; channel++) {
                    dtn_cm_factor_t factor = dtn_cm_factor(&layer->scale, channel);
                    *out++ = dtn_cm_scaled(&layer->scale, &factor, sum_of(layer, image, rows, columns, channel));
                }
            }
        }
        image += (size_t)p->in_h * (size_t)p->in_w * (size_t)p->in_c;
    }
}

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!dtn_cm_is_convolution(call, 1)) {
        return false;
    }
    const dtn_cm_windows_t *p = DTN_CM_PARAMS(call, dtn_cm_windows_t);
    return p->groups == p->in_c && p->has_kernel_sum == 0 && dtn_cm_has_rows(p) &&
           dtn_cm_is_axis(p->in_w, p->out_w, p->kernel_w, p->stride_w, p->pad_w, p->dilation_w);
}

int32_t dtn_cm_quantized_depthwise_conv2d(const dtn_operator_call_t *call, dtn_phase_t phase)
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
    const dtn_tensor_t *scratch = &call->values[call->input_count];
    if (!dtn_cm_convolve_depthwise(&layer, scratch->data, scratch->bytes)) {
        all_pixels(&layer);
    }
    return DTN_OK;
}
