#include "check.h"

dtn_reason_t dtn_check_conv2d_s8(const dtn_call_t *call)
{
    const dtn_conv2d_s8_params_t *p = (const dtn_conv2d_s8_params_t *)(const void *)call->params;
    const dtn_operand_t *operands = call->operands;
    dtn_axis_t vertical = {{p->in_h, p->out_h, p->kernel_h, p->stride_h, p->dilation_h}, p->pad_top};
    dtn_axis_t horizontal = {{p->in_w, p->out_w, p->kernel_w, p->stride_w, p->dilation_w}, p->pad_left};
    dtn_reason_t reason = dtn_check_range(p->in_zp, p->out_zp, p->act_min, p->act_max);
    if (reason != DTN_OK) {
        return reason;
    }
    if (!dtn_are_dimensions(DTN_LIST(p->batches, p->in_c, p->out_c, p->out_pitch)) || p->out_pitch < p->out_c) {
        return DTN_REASON_PARAMETER;
    }
    if ((reason = dtn_check_axis(&vertical)) != DTN_OK || (reason = dtn_check_axis(&horizontal)) != DTN_OK) {
        return reason;
    }
    if (p->requant_count != 1 && p->requant_count != p->out_c) {
        return DTN_REASON_REQUANT_COUNT;
    }
    /* The output as large as it would be with the bytes between positions after its last one, too. */
    dtn_operand_t output = operands[DTN_CONV2D_S8_OUTPUT];
    uint32_t between = (uint32_t)(p->out_pitch - p->out_c);
    if (output.bytes > UINT32_MAX - between) {
        return DTN_REASON_OPERAND_SIZE;
    }
    output.bytes += between;
    /* The weights' size bounds kernel_h * kernel_w * in_c below 2^32, so its rounding up fits in 64 bits. */
    if (!dtn_has_size(&operands[DTN_CONV2D_S8_INPUT], DTN_LIST(p->batches, p->in_h, p->in_w, p->in_c)) ||
        !dtn_has_size(&operands[DTN_CONV2D_S8_WEIGHTS], DTN_LIST(p->kernel_h, p->kernel_w, p->in_c, p->out_c)) ||
        !dtn_has_size(&operands[DTN_CONV2D_S8_BIAS], DTN_LIST(4, p->out_c)) ||
        !dtn_has_size(&output, DTN_LIST(p->batches, p->out_h, p->out_w, p->out_pitch))) {
        return DTN_REASON_OPERAND_SIZE;
    }
    uint64_t patch = (uint64_t)p->kernel_h * (uint64_t)p->kernel_w * (uint64_t)p->in_c;
    if (operands[DTN_CONV2D_S8_WORKSPACE].bytes != 8U * ((patch + 15U) / 16U * 16U)) {
        return DTN_REASON_OPERAND_SIZE;
    }
    return dtn_check_requant(&operands[DTN_CONV2D_S8_REQUANT], p->requant_count);
}
