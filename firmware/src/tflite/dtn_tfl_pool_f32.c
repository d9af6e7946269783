#include <float.h>

#include "float32_common.h"
#include "pools.h"

typedef dtn_tfl_pool_f32_params_t params_t;

enum { MEAN, LARGEST, ROOT_OF_MEAN_SQUARE, KINDS };

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 1, 1, params_t) || !dtn_cm_are(call->values, 2, DTN_TYPE_F32)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    return p->kind >= MEAN && p->kind < KINDS &&
           dtn_tfl_is_pool_axis(p->in_h, p->out_h, p->kernel_h, p->stride_h, p->pad_h) &&
           dtn_tfl_is_pool_axis(p->in_w, p->out_w, p->kernel_w, p->stride_w, p->pad_w) &&
           dtn_tfl_real(p->act_min) <= dtn_tfl_real(p->act_max) &&
           dtn_cm_has_size(&call->values[0], DTN_CM_LIST(4, p->batches, p->in_h, p->in_w, p->channels)) &&
           dtn_cm_has_size(&call->values[1], DTN_CM_LIST(4, p->batches, p->out_h, p->out_w, p->channels));
}

/* A window of one channel, whose first element is at `in`. */
static float result(const params_t *p, const float *in, int32_t rows, int32_t columns)
{
    float sum = 0.0F, largest = -FLT_MAX;
    for (int32_t y = 0; y < rows; y++) {
        const float *at = in + (size_t)y * (size_t)p->in_w * (size_t)p->channels;
        for (int32_t x = 0; x < columns; x++, at += p->channels) {
            float square = *at * *at;
            sum += p->kind == ROOT_OF_MEAN_SQUARE ? square : *at;
            largest = *at > largest ? *at : largest;
        }
    }
    float mean = sum / (float)(rows * columns);
    return p->kind == LARGEST ? largest : p->kind == MEAN ? mean : (float)dtn_tfl_square_root((double)mean);
}

int32_t dtn_tfl_pool_f32(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const float *image = (const float *)call->values[0].data;
    float *out = (float *)call->values[1].data;
    float low = dtn_tfl_real(p->act_min), high = dtn_tfl_real(p->act_max);
    for (int32_t b = 0; b < p->batches; b++, image += (size_t)p->in_h * (size_t)p->in_w * (size_t)p->channels) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            dtn_cm_window_t rows = dtn_cm_window(oy, p->stride_h, p->pad_h, p->kernel_h, 1, p->in_h);
            for (int32_t ox = 0; ox < p->out_w; ox++) {
                dtn_cm_window_t columns = dtn_cm_window(ox, p->stride_w, p->pad_w, p->kernel_w, 1, p->in_w);
                size_t y = (size_t)(rows.start + rows.first), x = (size_t)(columns.start + columns.first);
                const float *first = image + (y * (size_t)p->in_w + x) * (size_t)p->channels;
                for (int32_t c = 0; c < p->channels; c++) {
                    float value = result(p, first + c, rows.end - rows.first, columns.end - columns.first);
                    *out++ = dtn_tfl_clamp_f32(value, low, high);
                }
            }
        }
    }
    return DTN_OK;
}
