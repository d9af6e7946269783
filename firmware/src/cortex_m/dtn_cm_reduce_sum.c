#include "cortex_m.h"
#include "npu_kernel_call.h"

static bool is_valid(const dtn_operator_call_t *call)
{
    return DTN_CM_IS_CALL(call, 1, 1, dtn_cm_reduce_sum_params_t) && dtn_cm_are(call->values, 2, DTN_TYPE_S8);
}

int32_t dtn_cm_reduce_sum(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK && !is_valid(call)) {
        return DTN_REASON_OPERATOR;
    }
    dtn_call_t inner = dtn_cm_kernel_call(call, phase, call->params);
    return dtn_cm_reason(dtn_k_reduce_sum_s8(&inner, phase));
}
