#include "../check/check.h"
#include "../requant.h"
#include "../window.h"

static int8_t window_max(const dtn_max_pool_s8_params_t *p, const int8_t *image, dtn_window_t rows,
                         dtn_window_t columns, int32_t c)
{
    int8_t largest = INT8_MIN;
    for (int32_t ky = rows.first; ky < rows.end; ky++) {
        for (int32_t kx = columns.first; kx < columns.end; kx++) {
            size_t pixel = (size_t)(rows.start + ky) * (size_t)p->in_w + (size_t)(columns.start + kx);
            int8_t value = image[pixel * (size_t)p->channels + (size_t)c];
            largest = value > largest ? value : largest;
        }
    }
    return largest;
}

int32_t dtn_k_max_pool_s8(const dtn_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return (int32_t)dtn_check_max_pool_s8(call);
    }
    const dtn_max_pool_s8_params_t *p = (const dtn_max_pool_s8_params_t *)(const void *)call->params;
    const int8_t *image = (const int8_t *)call->operands[DTN_MAX_POOL_S8_INPUT].data;
    int8_t *out = (int8_t *)call->operands[DTN_MAX_POOL_S8_OUTPUT].data;

    for (int32_t b = 0; b < p->batches; b++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            for (int32_t ox = 0; ox < p->out_w; ox++) {
                dtn_window_t rows = dtn_window(oy, p->stride_h, p->pad_top, p->kernel_h, 1, p->in_h);
                dtn_window_t columns = dtn_window(ox, p->stride_w, p->pad_left, p->kernel_w, 1, p->in_w);
                for (int32_t c = 0; c < p->channels; c++) {
                    *out++ = dtn_clamp_s8(window_max(p, image, rows, columns, c), p->act_min, p->act_max);
                }
            }
        }
        image += (size_t)p->in_h * (size_t)p->in_w * (size_t)p->channels;
    }
    return DTN_OK;
}
