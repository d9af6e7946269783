#include "npu_kernel_call.h"

#include <stddef.h>

static dtn_operand_t operand(const dtn_tensor_t *value, dtn_phase_t phase)
{
    /* A check gets no address: the content of values is not there yet. */
    uint8_t *data = phase == DTN_PHASE_CHECK ? NULL : (uint8_t *)value->data;
    return (dtn_operand_t){data, value->bytes, false};
}

dtn_call_t dtn_cm_kernel_call(const dtn_operator_call_t *call, dtn_phase_t phase, const void *params)
{
    dtn_call_t inner = {.params = (const int32_t *)params};
    /* No operator by kernel has more inputs; compilers that see this function alone want to know it. */
    uint32_t inputs = call->input_count < DTN_MAX_OPERANDS ? call->input_count : DTN_MAX_OPERANDS - 1U;
    for (uint32_t i = 0; i < inputs; i++) {
        inner.operands[i] = operand(&call->values[i], phase);
    }
    inner.operands[inputs] = operand(&call->values[call->input_count + call->output_count - 1U], phase);
    return inner;
}
