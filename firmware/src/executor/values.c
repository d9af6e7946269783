#include "values.h"

#include <stdbool.h>
#include <stddef.h>

#include "deuteron/npu.h"

const dtn_value_t *dtn_value(const dtn_bundle_t *bundle, uint32_t word)
{
    return &bundle->values[bundle->words[word]];
}

/* The address of a value that is not bound. One pointer type for all values; the check of a step ensures that no
 * constant is written. */
static inline void *placed(const dtn_executor_t *executor, const dtn_value_t *value)
{
    bool constant = value->memory >= DTN_MEMORY_CONSTANT;
    const uint8_t *base =
        (const uint8_t *)(constant ? executor->bundle->constants[value->memory - DTN_MEMORY_CONSTANT].data
                                   : executor->memories[value->memory].data);
    return (void *)(base + value->offset);
}

void *dtn_value_data(const dtn_executor_t *executor, const dtn_value_t *value)
{
    const dtn_binding_t *binding = executor->bindings;
    while (binding != NULL && binding->value != value) {
        binding = binding->next;
    }
    return binding != NULL ? binding->data : placed(executor, value);
}

void dtn_value_tensors(const dtn_executor_t *executor, uint32_t word, uint32_t count, dtn_tensor_t *tensors)
{
    const dtn_value_t *values = executor->bundle->values;
    const uint32_t *words = executor->bundle->words + word;
    for (uint32_t i = 0; i < count; i++) {
        const dtn_value_t *value = &values[words[i]];
        tensors[i] = (dtn_tensor_t){placed(executor, value), value->bytes, value->type};
    }
    for (const dtn_binding_t *binding = executor->bindings; binding != NULL; binding = binding->next) {
        for (uint32_t i = 0; i < count; i++) {
            if (&values[words[i]] == binding->value) {
                tensors[i].data = binding->data;
            }
        }
    }
}

dtn_tensor_t dtn_npu_tensor(const dtn_npu_call_t *call, uint32_t index)
{
    dtn_tensor_t tensor;
    dtn_value_tensors(call->executor, call->first + index, 1, &tensor);
    return tensor;
}
