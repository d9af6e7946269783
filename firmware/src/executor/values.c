#include "values.h"

#include <stdbool.h>
#include <stddef.h>

#include "deuteron/npu.h"

const dtn_value_t *dtn_value(const dtn_bundle_t *bundle, uint32_t word)
{
    return &bundle->values[bundle->words[word]];
}

/* The address of a value in its memory, or among the constants. */
static inline void *own_data(const dtn_memory_t *memories, const dtn_constant_t *constants, const dtn_value_t *value)
{
    bool constant = value->memory >= DTN_MEMORY_CONSTANT;
    const uint8_t *base = (const uint8_t *)(constant ? constants[value->memory - DTN_MEMORY_CONSTANT].data
                                                     : memories[value->memory].data);
    /* One pointer type for all values; the check of a step ensures that no constant is written. */
    return (void *)(base + value->offset);
}

void *dtn_value_data(const dtn_executor_t *executor, const dtn_value_t *value)
{
    const dtn_binding_t *binding = executor->bindings;
    while (binding != NULL && binding->value != value) {
        binding = binding->next;
    }
    return binding != NULL ? binding->data : own_data(executor->memories, executor->bundle->constants, value);
}

void dtn_value_tensors(const dtn_executor_t *executor, uint32_t word, uint32_t count, dtn_tensor_t *tensors)
{
    /* Copies, which no store to a tensor can change: for small operators these instructions count. */
    const dtn_value_t *values = executor->bundle->values;
    const dtn_memory_t *memories = executor->memories;
    const dtn_constant_t *constants = executor->bundle->constants;
    const bool are_bound = executor->bindings != NULL;
    const uint32_t *words = executor->bundle->words + word;
    for (; count > 0; count--, words++, tensors++) {
        const dtn_value_t *value = &values[*words];
        tensors->data = are_bound ? dtn_value_data(executor, value) : own_data(memories, constants, value);
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
