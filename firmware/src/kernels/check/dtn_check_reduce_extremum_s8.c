#include "check.h"

dtn_reason_t dtn_check_reduce_extremum_s8(const dtn_call_t *call)
{
    const dtn_reduce_extremum_s8_params_t *p = (const dtn_reduce_extremum_s8_params_t *)(const void *)call->params;
    if (!dtn_are_dimensions(DTN_LIST(p->outer, p->inner)) || p->reduced < 1 ||
        p->reduced > (int32_t)DTN_MAX_REDUCTION || p->maximum < 0 || p->maximum > 1) {
        return DTN_REASON_PARAMETER;
    }
    if (!dtn_has_size(&call->operands[DTN_REDUCE_EXTREMUM_S8_INPUT], DTN_LIST(p->outer, p->reduced, p->inner)) ||
        !dtn_has_size(&call->operands[DTN_REDUCE_EXTREMUM_S8_OUTPUT], DTN_LIST(p->outer, p->inner))) {
        return DTN_REASON_OPERAND_SIZE;
    }
    return DTN_OK;
}
