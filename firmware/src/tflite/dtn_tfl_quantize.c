#include <string.h>

#include "numbers.h"

typedef dtn_tfl_quantize_params_t params_t;

static float scale_of(const params_t *p)
{
    float scale;
    memcpy(&scale, &p->scale, sizeof scale);
    return scale;
}

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
           dtn_tfl_holds(out->type, p->zero_point) && scale_of(p) > 0.0F;
}

/* Of |x| below 2^24: beyond that a sum with any zero point is outside all types. */
static int32_t rounded(float x)
{
    int32_t whole = (int32_t)x;
    float rest = x - (float)whole;
    return whole + (rest >= 0.5F ? 1 : 0) - (rest <= -0.5F ? 1 : 0);
}

int32_t dtn_tfl_quantize(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const float *in = (const float *)call->values[0].data;
    const float far = 1048576.0F;
    const float scale = scale_of(p);
    const dtn_tfl_limits_t limits = dtn_tfl_limits(call->values[1].type);
    for (size_t i = 0; i < (size_t)p->elements; i++) {
        float x = in[i] / scale;
        x = x > far ? far : x < -far ? -far : x == x ? x : 0.0F;
        dtn_tfl_put(&call->values[1], i, dtn_cm_clamp(rounded(x) + p->zero_point, limits.min, limits.max));
    }
    return DTN_OK;
}
