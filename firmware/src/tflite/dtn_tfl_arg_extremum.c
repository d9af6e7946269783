#include "integer_common.h"

typedef dtn_tfl_arg_extremum_params_t params_t;

static bool is_input(uint32_t type)
{
    return dtn_tfl_is_activation(type) || type == DTN_TYPE_U8 || type == DTN_TYPE_S32 || type == DTN_TYPE_F32;
}

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 1, 1, params_t)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *in = &call->values[0], *out = &call->values[1];
    int32_t item = in->type == DTN_TYPE_F32 ? 4 : (int32_t)dtn_tfl_item(in->type);
    return is_input(in->type) && (out->type == DTN_TYPE_S32 || out->type == DTN_TYPE_S64) &&
           (p->maximum == 0 || p->maximum == 1) &&
           dtn_cm_has_size(in, DTN_CM_LIST(item, p->outer, p->reduced, p->inner)) &&
           dtn_cm_has_size(out, DTN_CM_LIST(out->type == DTN_TYPE_S64 ? 8 : 4, p->outer, p->inner));
}

/* True for an element that is larger than another one. NaN is never better, and all numbers are better than NaN. */
static bool is_larger(const dtn_tensor_t *in, size_t one, size_t other, int32_t sign)
{
    if (in->type == DTN_TYPE_F32) {
        const float *x = (const float *)in->data;
        float a = x[one] * (float)sign, b = x[other] * (float)sign;
        return a > b || (a == a && b != b);
    }
    if (in->type == DTN_TYPE_S32 || in->type == DTN_TYPE_U8) {
        bool is_byte = in->type == DTN_TYPE_U8;
        int64_t a = is_byte ? ((const uint8_t *)in->data)[one] : ((const int32_t *)in->data)[one];
        int64_t b = is_byte ? ((const uint8_t *)in->data)[other] : ((const int32_t *)in->data)[other];
        return a * sign > b * sign;
    }
    return dtn_tfl_at(in, one) * sign > dtn_tfl_at(in, other) * sign;
}

int32_t dtn_tfl_arg_extremum(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *in = &call->values[0], *out = &call->values[1];
    size_t inner = (size_t)p->inner, at = 0;
    for (size_t o = 0; o < (size_t)p->outer; o++) {
        for (size_t i = 0; i < inner; i++, at++) {
            size_t first = o * (size_t)p->reduced * inner + i;
            size_t best = 0;
            for (size_t k = 1; k < (size_t)p->reduced; k++) {
                if (is_larger(in, first + k * inner, first + best * inner, p->maximum == 1 ? 1 : -1)) {
                    best = k;
                }
            }
            if (out->type == DTN_TYPE_S64) {
                ((int64_t *)out->data)[at] = (int64_t)best;
            } else {
                ((int32_t *)out->data)[at] = (int32_t)best;
            }
        }
    }
    return DTN_OK;
}
