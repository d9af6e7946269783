#include "integer_common.h"

typedef dtn_tfl_requantize_params_t params_t;

static bool is_whole(uint32_t type)
{
    return dtn_tfl_is_activation(type) || type == DTN_TYPE_U8 || type == DTN_TYPE_S32;
}

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 1, 1, params_t)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *in = &call->values[0], *out = &call->values[1];
    return is_whole(in->type) && is_whole(out->type) &&
           dtn_cm_has_size(in, DTN_CM_LIST(p->elements, (int32_t)dtn_tfl_item(in->type))) &&
           dtn_cm_has_size(out, DTN_CM_LIST(p->elements, (int32_t)dtn_tfl_item(out->type))) &&
           dtn_tfl_holds(in->type, p->in_zp) && dtn_tfl_holds(out->type, p->out_zp) &&
           dtn_tfl_is_factor(p->multiplier, p->shift) && dtn_tfl_is_range(out->type, p->act_min, p->act_max);
}

static int32_t load(const dtn_tensor_t *value, size_t at)
{
    switch (value->type) {
    case DTN_TYPE_U8:
        return ((const uint8_t *)value->data)[at];
    case DTN_TYPE_S32:
        return ((const int32_t *)value->data)[at];
    default:
        return dtn_tfl_at(value, at);
    }
}

int32_t dtn_tfl_requantize(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *out = &call->values[1];
    const dtn_tfl_limits_t limits = {p->act_min, p->act_max};
    for (size_t i = 0; i < (size_t)p->elements; i++) {
        int32_t from = (int32_t)((uint32_t)load(&call->values[0], i) - (uint32_t)p->in_zp);
        int32_t number = dtn_tfl_scaled(from, p->multiplier, p->shift, p->out_zp, limits);
        if (out->type == DTN_TYPE_S32) {
            ((int32_t *)out->data)[i] = number;
        } else {
            /* The low byte of a uint8 is that of the int8 with the same bits. */
            dtn_tfl_put(out, i, number);
        }
    }
    return DTN_OK;
}
