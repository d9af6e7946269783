#include "table_loops_s16.h"

static bool is_valid(const dtn_operator_call_t *call)
{
    return DTN_CM_IS_CALL(call, 1, 1, dtn_cm_requantize_t) && call->values[0].type == DTN_TYPE_S16 &&
           call->values[1].type == DTN_TYPE_S8 && dtn_cm_is_requantize(call);
}

int32_t dtn_cm_requantize_s8(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const dtn_cm_requantize_t *p = DTN_CM_PARAMS(call, dtn_cm_requantize_t);
    const int16_t *in = (const int16_t *)call->values[0].data;
    int8_t *out = (int8_t *)call->values[1].data;
    dtn_cm_requantize_to_s8(p, in, out);
    return DTN_OK;
}
