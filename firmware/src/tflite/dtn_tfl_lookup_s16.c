#include "lookup_s16.h"

typedef dtn_tfl_lookup_s16_params_t params_t;

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 2, 1, params_t)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    return call->values[0].type == DTN_TYPE_S16 && dtn_tfl_is_table(&call->values[1]) &&
           call->values[2].type == DTN_TYPE_S16 && dtn_cm_has_size(&call->values[0], DTN_CM_LIST(2, p->elements)) &&
           dtn_cm_has_size(&call->values[2], DTN_CM_LIST(2, p->elements));
}

int32_t dtn_tfl_lookup_s16(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const int16_t *in = (const int16_t *)call->values[0].data;
    const int16_t *table = (const int16_t *)call->values[1].data;
    int16_t *out = (int16_t *)call->values[2].data;
    for (size_t i = 0; i < (size_t)DTN_CM_PARAMS(call, params_t)->elements; i++) {
        out[i] = dtn_tfl_look_up(table, in[i]);
    }
    return DTN_OK;
}
