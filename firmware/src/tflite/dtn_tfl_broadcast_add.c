#include "integer_common.h"

typedef dtn_tfl_broadcast_add_params_t params_t;

enum { SUM = 0, DIFFERENCE = 1, SQUARE = 2 };

/* 255 * 2^20 and 65535 * 2^15 are the largest operands. */
static int32_t most_left_shift(uint32_t type)
{
    return type == DTN_TYPE_S8 ? 20 : 15;
}

static bool is_valid(const dtn_operator_call_t *call)
{
    uint32_t type = call->values[0].type;
    if (!DTN_CM_IS_CALL(call, 2, 1, params_t) || !dtn_tfl_is_activation(type) || !dtn_cm_are(call->values, 3, type)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    return dtn_tfl_are_pairs(call->values, p->dims, p->a_strides, p->b_strides) && p->kind >= SUM &&
           p->kind <= SQUARE && p->left_shift >= 0 && p->left_shift <= most_left_shift(type) &&
           dtn_tfl_holds(type, p->a_zp) && dtn_tfl_holds(type, p->b_zp) && dtn_tfl_holds(type, p->out_zp) &&
           dtn_tfl_is_factor(p->a_multiplier, p->a_shift) && dtn_tfl_is_factor(p->b_multiplier, p->b_shift) &&
           dtn_tfl_is_factor(p->out_multiplier, p->out_shift) && dtn_tfl_is_range(type, p->act_min, p->act_max);
}

static int32_t result(const params_t *p, int32_t x, int32_t y)
{
    int32_t a = dtn_cm_requantize((x - p->a_zp) * (1 << p->left_shift), p->a_multiplier, p->a_shift);
    int32_t b = dtn_cm_requantize((y - p->b_zp) * (1 << p->left_shift), p->b_multiplier, p->b_shift);
    uint32_t sum = p->kind == SUM ? (uint32_t)a + (uint32_t)b : (uint32_t)a - (uint32_t)b;
    sum = p->kind == SQUARE ? sum * sum : sum;
    return dtn_tfl_scaled((int32_t)sum, p->out_multiplier, p->out_shift, p->out_zp,
                          (dtn_tfl_limits_t){p->act_min, p->act_max});
}

int32_t dtn_tfl_broadcast_add(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *values = call->values;
    dtn_tfl_pairs_t pairs = dtn_tfl_pairs(values, p->dims, p->a_strides, p->b_strides);
    for (; pairs.left != 0; dtn_tfl_pairs_next(&pairs)) {
        for (uint32_t i = 0; i < pairs.length; i++) {
            int32_t x = dtn_tfl_at(&values[0], pairs.a + i * pairs.a_step);
            int32_t y = dtn_tfl_at(&values[1], pairs.b + i * pairs.b_step);
            dtn_tfl_put(&values[2], pairs.out + i, result(p, x, y));
        }
    }
    return DTN_OK;
}
