#include "../check/check.h"
#include "../requant.h"
#include "../window.h"

static int32_t window_sum(const dtn_average_pool_s8_params_t *p, const int8_t *image, dtn_window_t rows,
                          dtn_window_t columns, int32_t c)
{
    int32_t sum = 0;
    for (int32_t ky = rows.first; ky < rows.end; ky++) {
        for (int32_t kx = columns.first; kx < columns.end; kx++) {
            size_t pixel = (size_t)(rows.start + ky) * (size_t)p->in_w + (size_t)(columns.start + kx);
            sum += image[pixel * (size_t)p->channels + (size_t)c] - p->in_zp;
        }
    }
    return sum;
}

int32_t dtn_k_average_pool_s8_ref(const dtn_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return (int32_t)dtn_check_average_pool_s8(call);
    }
    const dtn_average_pool_s8_params_t *p = (const dtn_average_pool_s8_params_t *)(const void *)call->params;
    const int8_t *image = (const int8_t *)call->operands[DTN_AVERAGE_POOL_S8_INPUT].data;
    int8_t *out = (int8_t *)call->operands[DTN_AVERAGE_POOL_S8_OUTPUT].data;

    for (int32_t b = 0; b < p->batches; b++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            for (int32_t ox = 0; ox < p->out_w; ox++) {
                dtn_window_t rows = dtn_window(oy, p->stride_h, p->pad_top, p->kernel_h, 1, p->in_h);
                dtn_window_t columns = dtn_window(ox, p->stride_w, p->pad_left, p->kernel_w, 1, p->in_w);
                uint64_t elements = (uint64_t)(rows.end - rows.first) * (uint64_t)(columns.end - columns.first);
                for (int32_t c = 0; c < p->channels; c++) {
                    int32_t sum = window_sum(p, image, rows, columns, c);
                    *out++ = dtn_mean_s8(sum, p->mult, elements << p->shift, p->out_zp, p->act_min, p->act_max);
                }
            }
        }
        image += (size_t)p->in_h * (size_t)p->in_w * (size_t)p->channels;
    }
    return DTN_OK;
}
