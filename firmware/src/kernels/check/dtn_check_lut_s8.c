#include "check.h"

dtn_reason_t dtn_check_lut_s8(const dtn_call_t *call)
{
    const dtn_lut_s8_params_t *p = (const dtn_lut_s8_params_t *)(const void *)call->params;
    if (p->size < 1) {
        return DTN_REASON_PARAMETER;
    }
    if (!dtn_has_size(&call->operands[DTN_LUT_S8_INPUT], DTN_LIST(p->size)) ||
        !dtn_has_size(&call->operands[DTN_LUT_S8_OUTPUT], DTN_LIST(p->size)) ||
        call->operands[DTN_LUT_S8_TABLE].bytes != DTN_LUT_BYTES) {
        return DTN_REASON_OPERAND_SIZE;
    }
    return DTN_OK;
}
