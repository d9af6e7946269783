#include "by_kernel.h"

static dtn_operand_t operand(const dtn_tensor_t *value, dtn_phase_t phase)
{
    /* A check gets no address: the content of values is not there yet. */
    uint8_t *data = phase == DTN_PHASE_CHECK ? NULL : (uint8_t *)value->data;
    return (dtn_operand_t){data, value->bytes, false};
}

int32_t dtn_cm_by_kernel(const dtn_operator_call_t *call, dtn_phase_t phase, dtn_kernel_t kernel, const void *params)
{
    /* What the operators have checked already; compilers that see this function alone want to know it. */
    if (call->input_count >= DTN_MAX_OPERANDS) {
        return DTN_REASON_OPERATOR;
    }
    dtn_call_t inner = {.params = (const int32_t *)params};
    for (uint32_t i = 0; i < call->input_count; i++) {
        inner.operands[i] = operand(&call->values[i], phase);
    }
    uint32_t last = call->input_count + call->output_count - 1U;
    inner.operands[call->input_count] = operand(&call->values[last], phase);
    return kernel(&inner, phase) == DTN_OK ? DTN_OK : DTN_REASON_OPERATOR;
}
