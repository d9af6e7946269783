#include "broadcast_rows.h"
#include "element_loops.h"

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

static int8_t product(const params_t *p, int32_t a, int32_t b)
{
    int32_t scaled = dtn_cm_requantize((a - p->a_zp) * (b - p->b_zp), p->out_multiplier, p->out_shift);
    return (int8_t)dtn_cm_clamp(dtn_cm_plus(scaled, p->out_zp), INT8_MIN, INT8_MAX);
}

static void run(const dtn_operator_call_t *call)
{
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_cm_elements_product_t usual = {
        p->a_zp, p->b_zp, {p->out_multiplier, -p->out_shift}, {p->out_zp, INT8_MIN, INT8_MAX}};
    bool is_usual = dtn_cm_is_s8(p->a_zp) && dtn_cm_is_s8(p->b_zp) && dtn_cm_is_right(p->out_shift);
    dtn_cm_rows_t rows;
    dtn_cm_rows_start(&rows, call->values);
    for (uint32_t count; (count = dtn_cm_row(&rows)) != 0; dtn_cm_rows_next(&rows)) {
        if (is_usual) {
            dtn_cm_mul(&usual, rows.a, rows.b, rows.out, count);
            continue;
        }
        for (uint32_t i = 0; i < count; i++) {
            rows.out[i] = product(p, rows.a[i], rows.b[i]);
        }
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
