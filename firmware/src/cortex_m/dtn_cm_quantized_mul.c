#include "cortex_m.h"

typedef dtn_cm_quantized_mul_params_t params_t;

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 2, 1, params_t) || !dtn_cm_are(call->values, 3, DTN_TYPE_S8)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    return dtn_cm_is_repeated(call->values) && dtn_cm_is_zero_point(p->a_zp) && dtn_cm_is_zero_point(p->b_zp) &&
           dtn_cm_is_zero_point(p->out_zp) && dtn_cm_is_shift(p->out_shift);
}

static void run(const dtn_operator_call_t *call)
{
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const int8_t *a = (const int8_t *)call->values[DTN_CM_QUANTIZED_MUL_A].data;
    const int8_t *b = (const int8_t *)call->values[DTN_CM_QUANTIZED_MUL_B].data;
    int8_t *out = (int8_t *)call->values[DTN_CM_QUANTIZED_MUL_OUTPUT].data;
    dtn_cm_rows_t rows = dtn_cm_rows(call->values);
    for (uint32_t row = 0; row < rows.count; row++) {
        for (uint32_t i = 0; i < rows.length; i++) {
            int32_t product = (a[i] - p->a_zp) * (b[i] - p->b_zp);
            int32_t scaled = dtn_cm_requantize(product, p->out_multiplier, p->out_shift);
            *out++ = (int8_t)dtn_cm_clamp(dtn_cm_plus(scaled, p->out_zp), INT8_MIN, INT8_MAX);
        }
        a += rows.a_step;
        b += rows.b_step;
    }
}

int32_t dtn_cm_quantized_mul(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    run(call);
    return DTN_OK;
}
