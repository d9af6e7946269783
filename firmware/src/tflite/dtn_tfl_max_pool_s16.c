#include "pools.h"

static int32_t largest(const dtn_tfl_pool_t *p, const int16_t *in, const dtn_tfl_window_t *window)
{
    int32_t most = INT16_MIN;
    for (int32_t y = 0; y < window->rows; y++) {
        const int16_t *at = in + (size_t)y * (size_t)p->in_w * (size_t)p->channels;
        for (int32_t x = 0; x < window->columns; x++, at += p->channels) {
            most = *at > most ? *at : most;
        }
    }
    return most;
}

int32_t dtn_tfl_max_pool_s16(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return dtn_tfl_is_pool(call) && call->values[0].type == DTN_TYPE_S16 ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const dtn_tfl_pool_t *p = DTN_CM_PARAMS(call, dtn_tfl_pool_t);
    const int16_t *in = (const int16_t *)call->values[0].data;
    int16_t *out = (int16_t *)call->values[1].data;
    for (int32_t b = 0; b < p->batches; b++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            for (int32_t ox = 0; ox < p->out_w; ox++) {
                dtn_tfl_window_t window = dtn_tfl_window(p, b, oy, ox);
                for (int32_t c = 0; c < p->channels; c++) {
                    int32_t value = largest(p, in + window.first + c, &window);
                    *out++ = (int16_t)dtn_cm_clamp(value, p->act_min, p->act_max);
                }
            }
        }
    }
    return DTN_OK;
}
