#include "check.h"

dtn_reason_t dtn_check_depthwise_conv2d_s8(const dtn_call_t *call)
{
    const dtn_depthwise_conv2d_s8_params_t *p = (const dtn_depthwise_conv2d_s8_params_t *)(const void *)call->params;
    const dtn_operand_t *operands = call->operands;
    dtn_axis_t vertical = {{p->in_h, p->out_h, p->kernel_h, p->stride_h, p->dilation_h}, p->pad_top};
    dtn_axis_t horizontal = {{p->in_w, p->out_w, p->kernel_w, p->stride_w, p->dilation_w}, p->pad_left};
    dtn_reason_t reason = dtn_check_range(p->in_zp, p->out_zp, p->act_min, p->act_max);
    if (reason != DTN_OK) {
        return reason;
    }
    if (!dtn_are_dimensions(DTN_LIST(p->batches, p->in_c, p->out_c, p->multiplier)) ||
        (int64_t)p->in_c * p->multiplier != p->out_c) {
        return DTN_REASON_PARAMETER;
    }
    if ((reason = dtn_check_axis(&vertical)) != DTN_OK || (reason = dtn_check_axis(&horizontal)) != DTN_OK) {
        return reason;
    }
    if (p->requant_count != 1 && p->requant_count != p->out_c) {
        return DTN_REASON_REQUANT_COUNT;
    }
    if (!dtn_has_size(&operands[DTN_DEPTHWISE_CONV2D_S8_INPUT], DTN_LIST(p->batches, p->in_h, p->in_w, p->in_c)) ||
        !dtn_has_size(&operands[DTN_DEPTHWISE_CONV2D_S8_WEIGHTS], DTN_LIST(p->kernel_h, p->kernel_w, p->out_c)) ||
        !dtn_has_size(&operands[DTN_DEPTHWISE_CONV2D_S8_BIAS], DTN_LIST(4, p->out_c)) ||
        !dtn_has_size(&operands[DTN_DEPTHWISE_CONV2D_S8_OUTPUT], DTN_LIST(p->batches, p->out_h, p->out_w, p->out_c))) {
        return DTN_REASON_OPERAND_SIZE;
    }
    return dtn_check_requant(&operands[DTN_DEPTHWISE_CONV2D_S8_REQUANT], p->requant_count);
}
