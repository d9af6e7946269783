#include "check.h"

dtn_reason_t dtn_check_add_s8(const dtn_call_t *call)
{
    const dtn_add_s8_params_t *p = (const dtn_add_s8_params_t *)(const void *)call->params;
    dtn_reason_t reason = dtn_check_range(p->a_zp, p->out_zp, p->act_min, p->act_max);
    if (reason == DTN_OK) {
        reason = dtn_check_range(p->b_zp, p->out_zp, p->act_min, p->act_max);
    }
    if (reason != DTN_OK) {
        return reason;
    }
    if (!dtn_is_factor(p->a_mult, p->shift) || p->b_mult < -INT32_MAX) {
        return DTN_REASON_PARAMETER;
    }
    return dtn_check_broadcast(call, p->dims, p->a_strides, p->b_strides);
}
