#include "check.h"

dtn_reason_t dtn_check_prelu_s8(const dtn_call_t *call)
{
    const dtn_prelu_s8_params_t *p = (const dtn_prelu_s8_params_t *)(const void *)call->params;
    dtn_reason_t reason = dtn_check_range(p->a_zp, p->out_zp, INT8_MIN, INT8_MAX);
    if (reason == DTN_OK) {
        reason = dtn_check_range(p->b_zp, p->out_zp, INT8_MIN, INT8_MAX);
    }
    if (reason != DTN_OK) {
        return reason;
    }
    if (!dtn_is_factor(p->mult, p->shift) || !dtn_is_factor(p->alpha_mult, p->alpha_shift)) {
        return DTN_REASON_PARAMETER;
    }
    return dtn_check_broadcast(call, p->dims, p->a_strides, p->b_strides);
}
