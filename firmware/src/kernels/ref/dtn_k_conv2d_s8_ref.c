#include "../check/check.h"
#include "../requant.h"
#include "../window.h"

/* The sum over one window for one output channel, whose weights are `weights`. */
static uint32_t window_sum(const dtn_conv2d_s8_params_t *p, const int8_t *image, const int8_t *weights, int32_t oy,
                           int32_t ox)
{
    dtn_window_t rows = dtn_window(oy, p->stride_h, p->pad_top, p->kernel_h, p->dilation_h, p->in_h);
    dtn_window_t columns = dtn_window(ox, p->stride_w, p->pad_left, p->kernel_w, p->dilation_w, p->in_w);
    uint32_t sum = 0;
    for (int32_t ky = rows.first; ky < rows.end; ky++) {
        for (int32_t kx = columns.first; kx < columns.end; kx++) {
            size_t y = (size_t)(rows.start + (int64_t)ky * p->dilation_h);
            size_t x = (size_t)(columns.start + (int64_t)kx * p->dilation_w);
            const int8_t *pixel = image + (y * (size_t)p->in_w + x) * (size_t)p->in_c;
            const int8_t *tap = weights + ((size_t)ky * (size_t)p->kernel_w + (size_t)kx) * (size_t)p->in_c;
            for (int32_t c = 0; c < p->in_c; c++) {
                sum += (uint32_t)((pixel[c] - p->in_zp) * tap[c]);
            }
        }
    }
    return sum;
}

int32_t dtn_k_conv2d_s8_ref(const dtn_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return (int32_t)dtn_check_conv2d_s8(call);
    }
    const dtn_conv2d_s8_params_t *p = (const dtn_conv2d_s8_params_t *)(const void *)call->params;
    const int8_t *image = (const int8_t *)call->operands[DTN_CONV2D_S8_INPUT].data;
    const int8_t *weights = (const int8_t *)call->operands[DTN_CONV2D_S8_WEIGHTS].data;
    const int32_t *bias = (const int32_t *)(const void *)call->operands[DTN_CONV2D_S8_BIAS].data;
    const dtn_requant_row_t *rows = (const dtn_requant_row_t *)(const void *)call->operands[DTN_CONV2D_S8_REQUANT].data;
    int8_t *out = (int8_t *)call->operands[DTN_CONV2D_S8_OUTPUT].data;
    size_t patch = (size_t)p->kernel_h * (size_t)p->kernel_w * (size_t)p->in_c;

    for (int32_t b = 0; b < p->batches; b++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            for (int32_t ox = 0; ox < p->out_w; ox++) {
                for (int32_t oc = 0; oc < p->out_c; oc++) {
                    uint32_t sum = window_sum(p, image, weights + (size_t)oc * patch, oy, ox) + (uint32_t)bias[oc];
                    dtn_requant_row_t row = rows[p->requant_count == 1 ? 0 : oc];
                    out[oc] = dtn_requant_s8(dtn_as_signed(sum), row, p->out_zp, p->act_min, p->act_max);
                }
                out += p->out_pitch;
            }
        }
        image += (size_t)p->in_h * (size_t)p->in_w * (size_t)p->in_c;
    }
    return DTN_OK;
}
