#include "check.h"

dtn_reason_t dtn_check_fill_s8(const dtn_call_t *call)
{
    const dtn_fill_s8_params_t *p = (const dtn_fill_s8_params_t *)(const void *)call->params;
    if (p->size < 1 || p->value < INT8_MIN || p->value > INT8_MAX) {
        return DTN_REASON_PARAMETER;
    }
    return dtn_has_size(&call->operands[DTN_FILL_S8_OUTPUT], DTN_LIST(p->size)) ? DTN_OK : DTN_REASON_OPERAND_SIZE;
}
