#include "check.h"

dtn_reason_t dtn_check_average_pool_s8(const dtn_call_t *call)
{
    const dtn_average_pool_s8_params_t *p = (const dtn_average_pool_s8_params_t *)(const void *)call->params;
    const dtn_operand_t *operands = call->operands;
    dtn_axis_t vertical = {{p->in_h, p->out_h, p->kernel_h, p->stride_h, 1}, p->pad_top};
    dtn_axis_t horizontal = {{p->in_w, p->out_w, p->kernel_w, p->stride_w, 1}, p->pad_left};
    dtn_reason_t reason = dtn_check_range(p->in_zp, p->out_zp, p->act_min, p->act_max);
    if (reason != DTN_OK) {
        return reason;
    }
    if (!dtn_are_dimensions(DTN_LIST(p->batches, p->channels))) {
        return DTN_REASON_PARAMETER;
    }
    if ((reason = dtn_check_axis(&vertical)) != DTN_OK || (reason = dtn_check_axis(&horizontal)) != DTN_OK) {
        return reason;
    }
    int64_t area = (int64_t)p->kernel_h * p->kernel_w;
    if (area > (int64_t)DTN_MAX_REDUCTION || !dtn_is_mean_factor(p->mult, p->shift, (int32_t)area)) {
        return DTN_REASON_PARAMETER;
    }
    if (!dtn_has_size(&operands[DTN_AVERAGE_POOL_S8_INPUT], DTN_LIST(p->batches, p->in_h, p->in_w, p->channels)) ||
        !dtn_has_size(&operands[DTN_AVERAGE_POOL_S8_OUTPUT], DTN_LIST(p->batches, p->out_h, p->out_w, p->channels))) {
        return DTN_REASON_OPERAND_SIZE;
    }
    return DTN_OK;
}
