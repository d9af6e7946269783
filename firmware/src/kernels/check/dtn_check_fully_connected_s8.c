#include "check.h"

dtn_reason_t dtn_check_fully_connected_s8(const dtn_call_t *call)
{
    const dtn_fully_connected_s8_params_t *p = (const dtn_fully_connected_s8_params_t *)(const void *)call->params;
    const dtn_operand_t *operands = call->operands;
    dtn_reason_t reason = dtn_check_range(p->in_zp, p->out_zp, p->act_min, p->act_max);
    if (reason != DTN_OK) {
        return reason;
    }
    if (!dtn_are_dimensions(DTN_LIST(p->rows, p->in_features, p->out_features))) {
        return DTN_REASON_PARAMETER;
    }
    if (p->requant_count != 1 && p->requant_count != p->out_features) {
        return DTN_REASON_REQUANT_COUNT;
    }
    if (!dtn_has_size(&operands[DTN_FULLY_CONNECTED_S8_INPUT], DTN_LIST(p->rows, p->in_features)) ||
        !dtn_has_size(&operands[DTN_FULLY_CONNECTED_S8_WEIGHTS], DTN_LIST(p->out_features, p->in_features)) ||
        !dtn_has_size(&operands[DTN_FULLY_CONNECTED_S8_BIAS], DTN_LIST(4, p->out_features)) ||
        !dtn_has_size(&operands[DTN_FULLY_CONNECTED_S8_OUTPUT], DTN_LIST(p->rows, p->out_features))) {
        return DTN_REASON_OPERAND_SIZE;
    }
    return dtn_check_requant(&operands[DTN_FULLY_CONNECTED_S8_REQUANT], p->requant_count);
}
