#include "signal_common.h"

typedef dtn_tfl_signal_window_params_t params_t;

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 2, 1, params_t) || !dtn_cm_are(call->values, 3, DTN_TYPE_S16)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    return p->shift >= 0 && p->shift <= 31 && dtn_cm_has_size(&call->values[0], DTN_CM_LIST(2, p->rows, p->length)) &&
           dtn_cm_has_size(&call->values[1], DTN_CM_LIST(2, p->length)) &&
           dtn_cm_has_size(&call->values[2], DTN_CM_LIST(2, p->rows, p->length));
}

int32_t dtn_tfl_signal_window(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const int16_t *in = (const int16_t *)call->values[0].data, *weights = (const int16_t *)call->values[1].data;
    int16_t *out = (int16_t *)call->values[2].data;
    for (int32_t row = 0; row < p->rows; row++) {
        for (int32_t i = 0; i < p->length; i++) {
            *out++ = dtn_tfl_s16((*in++ * weights[i]) >> p->shift);
        }
    }
    return DTN_OK;
}
