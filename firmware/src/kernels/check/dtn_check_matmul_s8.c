#include "check.h"

dtn_reason_t dtn_check_matmul_s8(const dtn_call_t *call)
{
    const dtn_matmul_s8_params_t *p = (const dtn_matmul_s8_params_t *)(const void *)call->params;
    dtn_reason_t reason = dtn_check_range(p->x_zp, p->out_zp, p->act_min, p->act_max);
    if (reason == DTN_OK) {
        reason = dtn_check_range(p->y_zp, p->out_zp, p->act_min, p->act_max);
    }
    if (reason != DTN_OK) {
        return reason;
    }
    /* The depth keeps the sum of its products within 32 bits. */
    if (!dtn_are_dimensions(DTN_LIST(p->batches, p->rows, p->depth, p->columns)) ||
        p->depth > (int32_t)DTN_MAX_MATMUL_DEPTH || !dtn_is_factor(p->mult, p->shift)) {
        return DTN_REASON_PARAMETER;
    }
    if (!dtn_has_size(&call->operands[DTN_MATMUL_S8_X], DTN_LIST(p->batches, p->rows, p->depth)) ||
        !dtn_has_size(&call->operands[DTN_MATMUL_S8_Y], DTN_LIST(p->batches, p->depth, p->columns)) ||
        !dtn_has_size(&call->operands[DTN_MATMUL_S8_OUTPUT], DTN_LIST(p->batches, p->rows, p->columns))) {
        return DTN_REASON_OPERAND_SIZE;
    }
    return DTN_OK;
}
