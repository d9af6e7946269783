#include "../check/check.h"
#include "../window.h"
#include "block.h"

/* Raises largest[0..n-1] to the channels of one input pixel. */
static void raise(int8_t *restrict largest, const int8_t *restrict in, int32_t n)
{
    for (int32_t j = 0; j < n; j++) {
        largest[j] = in[j] > largest[j] ? in[j] : largest[j];
    }
}

/* `n` channels from `image` on of one output pixel. */
static void chunk_run(const dtn_max_pool_s8_params_t *p, const int8_t *image, dtn_window_t rows, dtn_window_t columns,
                      int32_t n, int8_t *out)
{
    /* The lower limit is the least output, so the search may start there. */
    int8_t largest[DTN_CHUNK];
    int8_t act_max = (int8_t)p->act_max;
    memset(largest, (int)(uint8_t)p->act_min, sizeof largest);
    for (int32_t ky = rows.first; ky < rows.end; ky++) {
        for (int32_t kx = columns.first; kx < columns.end; kx++) {
            size_t pixel = (size_t)(rows.start + ky) * (size_t)p->in_w + (size_t)(columns.start + kx);
            raise(largest, image + pixel * (size_t)p->channels, n);
        }
    }
    for (int32_t j = 0; j < DTN_CHUNK; j++) {
        largest[j] = largest[j] > act_max ? act_max : largest[j];
    }
    memcpy(out, largest, (size_t)n);
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
            dtn_window_t rows = dtn_window(oy, p->stride_h, p->pad_top, p->kernel_h, 1, p->in_h);
            for (int32_t ox = 0; ox < p->out_w; ox++) {
                dtn_window_t columns = dtn_window(ox, p->stride_w, p->pad_left, p->kernel_w, 1, p->in_w);
                for (int32_t c = 0; c < p->channels; c += DTN_CHUNK) {
                    int32_t n = dtn_chunk_size((size_t)(p->channels - c));
                    chunk_run(p, image + c, rows, columns, n, out + c);
                }
                out += p->channels;
            }
        }
        image += (size_t)p->in_h * (size_t)p->in_w * (size_t)p->channels;
    }
    return DTN_OK;
}
