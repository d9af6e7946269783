#include "sigmoid_s16.h"

#include "integer_common.h"

typedef dtn_tfl_sigmoid_s16_params_t params_t;

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 2, 1, params_t)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *in = &call->values[0], *table = &call->values[1], *out = &call->values[2];
    return in->type == DTN_TYPE_S16 && table->type == DTN_TYPE_S32 && out->type == DTN_TYPE_S16 &&
           dtn_cm_has_size(in, DTN_CM_LIST(2, p->elements)) && dtn_cm_has_size(out, DTN_CM_LIST(2, p->elements)) &&
           dtn_cm_has_size(table, DTN_CM_LIST(4, DTN_TFL_SIGMOID_VALUES)) && p->multiplier >= 0 &&
           p->multiplier <= UINT16_MAX && p->shift >= 0 && p->shift <= 31 && (p->tanh == 0 || p->tanh == 1);
}

int32_t dtn_tfl_sigmoid_s16(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const int16_t *in = (const int16_t *)call->values[0].data;
    const int32_t *table = (const int32_t *)call->values[1].data;
    int16_t *out = (int16_t *)call->values[2].data;
    for (size_t i = 0; i < (size_t)p->elements; i++) {
        int32_t x = dtn_tfl_sigmoid_input(in[i], p->multiplier, p->shift);
        out[i] = p->tanh == 1 ? dtn_tfl_tanh_s16(table, x) : dtn_tfl_logistic_s16(table, x);
    }
    return DTN_OK;
}
