#include "signal_common.h"

typedef dtn_tfl_signal_auto_scale_params_t params_t;

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 1, 2, params_t)) {
        return false;
    }
    int32_t elements = DTN_CM_PARAMS(call, params_t)->elements;
    const dtn_tensor_t *values = call->values;
    return dtn_tfl_is_vector(&values[0], DTN_TYPE_S16, 2, elements) &&
           dtn_tfl_is_vector(&values[1], DTN_TYPE_S16, 2, elements) &&
           dtn_tfl_is_vector(&values[2], DTN_TYPE_S32, 4, 1);
}

int32_t dtn_tfl_signal_auto_scale(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const int32_t elements = DTN_CM_PARAMS(call, params_t)->elements;
    const int16_t *in = (const int16_t *)call->values[0].data;
    int16_t *out = (int16_t *)call->values[1].data;
    int16_t most = 0;
    for (int32_t i = 0; i < elements; i++) {
        if (in[i] > most) {
            most = in[i];
        } else if (-in[i] > most) {
            most = (int16_t)-in[i]; /* -32768 for -32768, as in TFLite Micro */
        }
    }
    int32_t bits = most > 0 ? 15 - dtn_tfl_bits((uint32_t)most) : 0;
    for (int32_t i = 0; i < elements; i++) {
        out[i] = (int16_t)(in[i] * (1 << bits));
    }
    *(int32_t *)call->values[2].data = bits;
    return DTN_OK;
}
