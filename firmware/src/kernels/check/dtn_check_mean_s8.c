#include "check.h"

dtn_reason_t dtn_check_mean_s8(const dtn_call_t *call)
{
    const dtn_mean_s8_params_t *p = (const dtn_mean_s8_params_t *)(const void *)call->params;
    dtn_reason_t reason = dtn_check_range(p->in_zp, p->out_zp, INT8_MIN, INT8_MAX);
    if (reason != DTN_OK) {
        return reason;
    }
    if (!dtn_are_dimensions(DTN_LIST(p->outer, p->inner)) || p->reduced < 1 ||
        p->reduced > (int32_t)DTN_MAX_REDUCTION || p->mult < 0 || p->shift < 1 || p->shift > 62) {
        return DTN_REASON_PARAMETER;
    }
    if (!dtn_has_size(&call->operands[DTN_MEAN_S8_INPUT], DTN_LIST(p->outer, p->reduced, p->inner)) ||
        !dtn_has_size(&call->operands[DTN_MEAN_S8_OUTPUT], DTN_LIST(p->outer, p->inner))) {
        return DTN_REASON_OPERAND_SIZE;
    }
    return DTN_OK;
}
