#include <stddef.h>

#include "by_kernel.h"
#include "cortex_m.h"

typedef dtn_cm_copy_params_t params_t;

/* After its first word the record is the kernel's. */
typedef char record_continues_with_the_kernels
    [sizeof(params_t) - offsetof(params_t, in_start) == sizeof(dtn_copy_s8_params_t) ? 1 : -1];

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 1, 1, params_t) || !dtn_cm_are(call->values, 2, call->values[0].type)) {
        return false;
    }
    int32_t start = DTN_CM_PARAMS(call, params_t)->out_start;
    return start >= 0 && (uint32_t)start < call->values[1].bytes;
}

int32_t dtn_cm_copy(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK && !is_valid(call)) {
        return DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    dtn_operator_call_t region = *call;
    region.values[1].data = (uint8_t *)call->values[1].data + p->out_start;
    region.values[1].bytes -= (uint32_t)p->out_start;
    dtn_call_t inner = dtn_cm_kernel_call(&region, phase, &p->in_start);
    return dtn_cm_reason(dtn_k_copy_s8(&inner, phase));
}
