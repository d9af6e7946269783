#include "integer_common.h"

typedef dtn_tfl_prelu_params_t params_t;

static bool is_valid(const dtn_operator_call_t *call)
{
    uint32_t type = call->values[0].type;
    if (!DTN_CM_IS_CALL(call, 2, 1, params_t) || !dtn_tfl_is_activation(type) || !dtn_cm_are(call->values, 3, type)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    return dtn_tfl_are_pairs(call->values, p->dims, p->a_strides, p->b_strides) && dtn_tfl_holds(type, p->a_zp) &&
           dtn_tfl_holds(type, p->b_zp) && dtn_tfl_holds(type, p->out_zp) &&
           dtn_tfl_is_factor(p->multiplier, p->shift) && dtn_tfl_is_factor(p->alpha_multiplier, p->alpha_shift);
}

int32_t dtn_tfl_prelu(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *values = call->values;
    const dtn_tfl_limits_t limits = dtn_tfl_limits(values[2].type);
    dtn_tfl_pairs_t pairs = dtn_tfl_pairs(values, p->dims, p->a_strides, p->b_strides);
    for (; pairs.left != 0; dtn_tfl_pairs_next(&pairs)) {
        for (uint32_t i = 0; i < pairs.length; i++) {
            int32_t x = dtn_tfl_at(&values[0], pairs.a + i * pairs.a_step) - p->a_zp;
            int32_t alpha = dtn_tfl_at(&values[1], pairs.b + i * pairs.b_step) - p->b_zp;
            int32_t y = x >= 0 ? dtn_tfl_scaled(x, p->multiplier, p->shift, p->out_zp, limits)
                               : dtn_tfl_scaled((int32_t)((uint32_t)x * (uint32_t)alpha), p->alpha_multiplier,
                                                p->alpha_shift, p->out_zp, limits);
            dtn_tfl_put(&values[2], pairs.out + i, y);
        }
    }
    return DTN_OK;
}
