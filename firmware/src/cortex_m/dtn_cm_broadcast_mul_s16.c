#include "binary_loops_s16.h"

typedef dtn_cm_broadcast_mul_s16_params_t params_t;

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 2, 1, params_t)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    return dtn_cm_are_s16_rows(call->values, p->dims, p->a_strides, p->b_strides) && p->mult >= 0 && p->shift >= 1 &&
           p->shift <= 62 && dtn_cm_is_s16_range(p->act_min, p->act_max);
}

int32_t dtn_cm_broadcast_mul_s16(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    dtn_cm_s16_rows_t rows = dtn_cm_s16_rows(call->values, p->dims, p->a_strides, p->b_strides);
    for (; rows.left != 0; dtn_cm_s16_rows_next(&rows)) {
        dtn_cm_mul_s16(p, &rows);
    }
    return DTN_OK;
}
