#include "fixed_point.h"
#include "integer_common.h"

typedef dtn_tfl_divide_params_t params_t;

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 2, 1, params_t) || !dtn_cm_are(call->values, 3, DTN_TYPE_S8)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    return dtn_tfl_are_pairs(call->values, p->dims, p->a_strides, p->b_strides) && dtn_cm_is_s8(p->a_zp) &&
           dtn_cm_is_s8(p->b_zp) && dtn_cm_is_s8(p->out_zp) && dtn_tfl_is_factor(p->out_multiplier, p->out_shift) &&
           dtn_cm_is_range(p->act_min, p->act_max);
}

/* a / b by the reciprocal of b / 2^floor(log2(b)); a is shifted to the left as far as 32 bits hold it. */
static int32_t quotient(const params_t *p, int32_t a, int32_t b)
{
    if (b == 0) {
        return 0;
    }
    a = b < 0 ? -a : a;
    uint32_t divisor = (uint32_t)(b < 0 ? -b : b), size = (uint32_t)(a < 0 ? -(a + 1) : a);
    int32_t zeros = dtn_tfl_leading_zeros(divisor);
    int32_t inverse = dtn_tfl_one_over_one_plus((int32_t)((divisor << zeros) - (UINT32_C(1) << 31)));
    int32_t left = dtn_tfl_leading_zeros(size) - 1;
    int32_t product = dtn_tfl_times((int32_t)((uint32_t)a << left), inverse);
    return dtn_cm_requantize(product, p->out_multiplier, p->out_shift - (31 - zeros) - left);
}

int32_t dtn_tfl_divide(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *values = call->values;
    dtn_tfl_pairs_t pairs = dtn_tfl_pairs(values, p->dims, p->a_strides, p->b_strides);
    for (; pairs.left != 0; dtn_tfl_pairs_next(&pairs)) {
        for (uint32_t i = 0; i < pairs.length; i++) {
            int32_t a = dtn_tfl_at(&values[0], pairs.a + i * pairs.a_step) - p->a_zp;
            int32_t b = dtn_tfl_at(&values[1], pairs.b + i * pairs.b_step) - p->b_zp;
            int32_t number = dtn_cm_plus(quotient(p, a, b), p->out_zp);
            dtn_tfl_put(&values[2], pairs.out + i, dtn_cm_clamp(number, p->act_min, p->act_max));
        }
    }
    return DTN_OK;
}
