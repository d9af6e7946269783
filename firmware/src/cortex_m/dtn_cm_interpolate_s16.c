#include "table_loops_s16.h"

typedef dtn_cm_interpolate_s16_params_t params_t;

static bool is_valid(const dtn_operator_call_t *call)
{
    const dtn_tensor_t *values = call->values;
    if (!DTN_CM_IS_CALL(call, 2, 1, params_t) || values[0].type != DTN_TYPE_S16 || values[1].type != DTN_TYPE_S32 ||
        values[2].type != DTN_TYPE_S16) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    return dtn_cm_is_s16_range(p->low, p->high) && p->bits >= 0 && p->bits <= 15 &&
           dtn_cm_has_size(&values[0], DTN_CM_LIST(2, p->elements)) && values[2].bytes == values[0].bytes &&
           dtn_cm_has_size(&values[1], DTN_CM_LIST(4, ((p->high - p->low) >> p->bits) + 2));
}

int32_t dtn_cm_interpolate_s16(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const int16_t *in = (const int16_t *)call->values[DTN_CM_INTERPOLATE_S16_INPUT].data;
    const int32_t *table = (const int32_t *)call->values[DTN_CM_INTERPOLATE_S16_TABLE].data;
    int16_t *out = (int16_t *)call->values[DTN_CM_INTERPOLATE_S16_OUTPUT].data;
    dtn_cm_interpolate_elements(p, in, table, out);
    return DTN_OK;
}
