#include "check.h"

/* 1.0 in the table's fixed point. */
#define ONE (UINT32_C(1) << 30)

dtn_reason_t dtn_check_softmax_s8(const dtn_call_t *call)
{
    const dtn_softmax_s8_params_t *p = (const dtn_softmax_s8_params_t *)(const void *)call->params;
    const dtn_operand_t *table = &call->operands[DTN_SOFTMAX_S8_TABLE];
    const uint32_t *words = (const uint32_t *)(const void *)table->data;
    dtn_reason_t reason = dtn_check_range(0, p->out_zp, INT8_MIN, INT8_MAX);
    if (reason != DTN_OK) {
        return reason;
    }
    if (!dtn_are_dimensions(DTN_LIST(p->rows, p->depth)) || p->mult < 1 || p->shift < 0 || p->shift > 16) {
        return DTN_REASON_PARAMETER;
    }
    if (!dtn_has_size(&call->operands[DTN_SOFTMAX_S8_INPUT], DTN_LIST(p->rows, p->depth)) ||
        !dtn_has_size(&call->operands[DTN_SOFTMAX_S8_OUTPUT], DTN_LIST(p->rows, p->depth)) ||
        table->bytes != DTN_SOFTMAX_TABLE_BYTES) {
        return DTN_REASON_OPERAND_SIZE;
    }
    if (words == NULL) {
        return DTN_OK;
    }
    bool ok = words[0] == ONE;
    for (uint32_t i = 0; i < DTN_SOFTMAX_TABLE_BYTES / sizeof *words; i++) {
        ok = ok && words[i] <= ONE;
    }
    return ok ? DTN_OK : DTN_REASON_SOFTMAX_TABLE;
}
