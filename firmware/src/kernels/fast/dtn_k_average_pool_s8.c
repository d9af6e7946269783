#include "../check/check.h"
#include "../window.h"
#include "block.h"

/* Sums of `n` channels from `image` on over one window. */
static void window_sums(const dtn_average_pool_s8_params_t *p, const int8_t *image, dtn_window_t rows,
                        dtn_window_t columns, int32_t n, uint32_t *restrict sums)
{
    for (int32_t ky = rows.first; ky < rows.end; ky++) {
        for (int32_t kx = columns.first; kx < columns.end; kx++) {
            size_t pixel = (size_t)(rows.start + ky) * (size_t)p->in_w + (size_t)(columns.start + kx);
            const int8_t *in = image + pixel * (size_t)p->channels;
            for (int32_t j = 0; j < n; j++) {
                sums[j] += (uint32_t)(in[j] - p->in_zp);
            }
        }
    }
}

/* All channels of one output pixel. */
static void pixel_run(const dtn_average_pool_s8_params_t *p, const int8_t *image, dtn_window_t rows,
                      dtn_window_t columns, int8_t *out)
{
    uint64_t elements = (uint64_t)(rows.end - rows.first) * (uint64_t)(columns.end - columns.first);
    dtn_quotient_t quotient = dtn_quotient(p->mult, elements << p->shift);
    dtn_range_t range = {p->out_zp, p->act_min, p->act_max};
    for (int32_t c = 0; c < p->channels; c += DTN_CHUNK) {
        int32_t n = dtn_chunk_size((size_t)(p->channels - c));
        uint32_t sums[DTN_CHUNK] = {0};
        window_sums(p, image + c, rows, columns, n, sums);
        dtn_chunk_store_means(sums, &quotient, range, out + c, n);
    }
}

int32_t dtn_k_average_pool_s8(const dtn_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return (int32_t)dtn_check_average_pool_s8(call);
    }
    const dtn_average_pool_s8_params_t *p = (const dtn_average_pool_s8_params_t *)(const void *)call->params;
    const int8_t *image = (const int8_t *)call->operands[DTN_AVERAGE_POOL_S8_INPUT].data;
    int8_t *out = (int8_t *)call->operands[DTN_AVERAGE_POOL_S8_OUTPUT].data;

    for (int32_t b = 0; b < p->batches; b++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            dtn_window_t rows = dtn_window(oy, p->stride_h, p->pad_top, p->kernel_h, 1, p->in_h);
            for (int32_t ox = 0; ox < p->out_w; ox++) {
                dtn_window_t columns = dtn_window(ox, p->stride_w, p->pad_left, p->kernel_w, 1, p->in_w);
                pixel_run(p, image, rows, columns, out);
                out += p->channels;
            }
        }
        image += (size_t)p->in_h * (size_t)p->in_w * (size_t)p->channels;
    }
    return DTN_OK;
}
