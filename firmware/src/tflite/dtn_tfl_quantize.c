#include "float32_common.h"

typedef dtn_tfl_quantize_params_t params_t;

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 1, 1, params_t)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *in = &call->values[0], *out = &call->values[1];
    return in->type == DTN_TYPE_F32 && (dtn_tfl_is_activation(out->type) || out->type == DTN_TYPE_U8) &&
           dtn_cm_has_size(in, DTN_CM_LIST(p->elements, 4)) &&
           dtn_cm_has_size(out, DTN_CM_LIST(p->elements, (int32_t)dtn_tfl_item(out->type))) &&
           dtn_tfl_holds(out->type, p->zero_point) && dtn_tfl_real(p->scale) > 0.0F;
}

int32_t dtn_tfl_quantize(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const float *in = (const float *)call->values[0].data;
    const float scale = dtn_tfl_real(p->scale);
    const dtn_tfl_limits_t limits = dtn_tfl_limits(call->values[1].type);
    for (size_t i = 0; i < (size_t)p->elements; i++) {
        int32_t steps = dtn_tfl_nearest(in[i] / scale) + p->zero_point;
        dtn_tfl_put(&call->values[1], i, dtn_cm_clamp(steps, limits.min, limits.max));
    }
    return DTN_OK;
}
