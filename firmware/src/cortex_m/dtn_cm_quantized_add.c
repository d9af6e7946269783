#include "cortex_m.h"

/* Bits that the operands are shifted to the left by, so that the factors do not lose what counts. */
enum { LEFT_SHIFT = 20 };

typedef dtn_cm_quantized_add_params_t params_t;

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 2, 1, params_t) || !dtn_cm_are(call->values, 3, DTN_TYPE_S8)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    return dtn_cm_is_repeated(call->values) && dtn_cm_is_zero_point(p->a_zp) && dtn_cm_is_zero_point(p->b_zp) &&
           dtn_cm_is_zero_point(p->out_zp) && dtn_cm_is_shift(p->a_shift) && dtn_cm_is_shift(p->b_shift) &&
           dtn_cm_is_shift(p->out_shift) && dtn_cm_is_range(p->act_min, p->act_max);
}

static int32_t scaled(int32_t value, int32_t zp, int32_t multiplier, int32_t shift)
{
    /* Unsigned, where an overflow is defined: zero points may be far. */
    return dtn_cm_requantize((int32_t)((uint32_t)(value - zp) << LEFT_SHIFT), multiplier, shift);
}

static int8_t sum(const params_t *p, int32_t a, int32_t b)
{
    int32_t exact =
        dtn_cm_plus(scaled(a, p->a_zp, p->a_multiplier, p->a_shift), scaled(b, p->b_zp, p->b_multiplier, p->b_shift));
    int32_t result = dtn_cm_requantize(exact, p->out_multiplier, p->out_shift);
    return (int8_t)dtn_cm_clamp(dtn_cm_plus(result, p->out_zp), p->act_min, p->act_max);
}

static void run(const dtn_operator_call_t *call)
{
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const int8_t *a = (const int8_t *)call->values[DTN_CM_QUANTIZED_ADD_A].data;
    const int8_t *b = (const int8_t *)call->values[DTN_CM_QUANTIZED_ADD_B].data;
    int8_t *out = (int8_t *)call->values[DTN_CM_QUANTIZED_ADD_OUTPUT].data;
    dtn_cm_rows_t rows = dtn_cm_rows(call->values);
    for (uint32_t row = 0; row < rows.count; row++) {
        for (uint32_t i = 0; i < rows.length; i++) {
            *out++ = sum(p, a[i], b[i]);
        }
        a += rows.a_step;
        b += rows.b_step;
    }
}

int32_t dtn_cm_quantized_add(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    run(call);
    return DTN_OK;
}
