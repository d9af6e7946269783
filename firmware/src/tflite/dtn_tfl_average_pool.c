#include "pools.h"

static int32_t mean(const dtn_tfl_pool_t *p, const dtn_tensor_t *in, const dtn_tfl_window_t *window, uint32_t channel)
{
    int32_t sum = 0;
    for (int32_t y = 0; y < window->rows; y++) {
        uint32_t at = window->first + channel + (uint32_t)y * (uint32_t)p->in_w * (uint32_t)p->channels;
        for (int32_t x = 0; x < window->columns; x++, at += (uint32_t)p->channels) {
            sum += dtn_tfl_at(in, at);
        }
    }
    int32_t count = window->rows * window->columns;
    int32_t half = count / 2;
    if (p->ties_up == 1 && sum < 0) {
        /* The quotient that is not above (sum + half) / count. */
        return -((count - 1 - half - sum) / count);
    }
    return (sum > 0 ? sum + half : sum - half) / count;
}

int32_t dtn_tfl_average_pool(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return dtn_tfl_is_pool(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const dtn_tfl_pool_t *p = DTN_CM_PARAMS(call, dtn_tfl_pool_t);
    uint32_t out = 0;
    for (int32_t b = 0; b < p->batches; b++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            for (int32_t ox = 0; ox < p->out_w; ox++) {
                dtn_tfl_window_t window = dtn_tfl_window(p, b, oy, ox);
                for (uint32_t c = 0; c < (uint32_t)p->channels; c++) {
                    int32_t value = mean(p, &call->values[0], &window, c);
                    dtn_tfl_put(&call->values[1], out++, dtn_cm_clamp(value, p->act_min, p->act_max));
                }
            }
        }
    }
    return DTN_OK;
}
