#include "values.h"

#include <stdbool.h>
#include <stddef.h>

#include "deuteron/npu.h"

void *dtn_value_data(const dtn_executor_t *executor, const dtn_value_t *value)
{
    const dtn_binding_t *binding = executor->bindings;
    while (binding != NULL && binding->value != value) {
        binding = binding->next;
    }
    if (binding != NULL) {
        return binding->data;
    }
    bool constant = value->memory >= DTN_MEMORY_CONSTANT;
    const uint8_t *base =
        (const uint8_t *)(constant ? executor->bundle->constants[value->memory - DTN_MEMORY_CONSTANT].data
                                   : executor->memories[value->memory].data);
    /* One pointer type for all values; the check of a step ensures that no constant is written. */
    return (void *)(base + value->offset);
}

void dtn_value_tensors(const dtn_executor_t *executor, uint32_t word, uint32_t count, dtn_tensor_t *tensors)
{
    for (; count > 0; count--, word++, tensors++) {
        const dtn_value_t *value = dtn_value(executor->bundle, word);
        tensors->data = dtn_value_data(executor, value);
        tensors->bytes = value->bytes;
        tensors->type = value->type;
    }
}

dtn_tensor_t dtn_npu_tensor(const dtn_npu_call_t *call, uint32_t index)
{
    dtn_tensor_t tensor;
    dtn_value_tensors(call->executor, call->first + index, 1, &tensor);
    return tensor;
}
