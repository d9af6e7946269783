#include "../kernels/check/check.h"
#include "cortex_m.h"
#include "element_loops.h"
#include "npu_kernel_call.h"

static int32_t check(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 2, 1, dtn_cm_quantized_activation_params_t) ||
        !dtn_cm_are(call->values, 3, DTN_TYPE_S8)) {
        return DTN_REASON_OPERATOR;
    }
    dtn_call_t inner = dtn_cm_kernel_call(call, DTN_PHASE_CHECK, call->params);
    return dtn_cm_reason((int32_t)dtn_check_lut_s8(&inner));
}

int32_t dtn_cm_quantized_activation(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return check(call);
    }
    const dtn_tensor_t *values = call->values;
    dtn_cm_look_up((const int8_t *)values[DTN_CM_QUANTIZED_ACTIVATION_TABLE].data,
                   (const int8_t *)values[DTN_CM_QUANTIZED_ACTIVATION_INPUT].data,
                   (int8_t *)values[DTN_CM_QUANTIZED_ACTIVATION_OUTPUT].data,
                   values[DTN_CM_QUANTIZED_ACTIVATION_OUTPUT].bytes);
    return DTN_OK;
}
