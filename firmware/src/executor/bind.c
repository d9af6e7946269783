/* Inputs and outputs in buffers of the caller. */
#include <stddef.h>

#include "../driver/types.h"
#include "bundle.h"
#include "deuteron/errors.h"
#include "deuteron/executor.h"
#include "values.h"

/* The last writer of the bytes that two values share. */
typedef enum { NONE, OWN, OTHER } writer_t;

static bool names(const uint32_t *words, uint32_t count, uint32_t value)
{
    for (uint32_t i = 0; i < count; i++) {
        if (words[i] == value) {
            return true;
        }
    }
    return false;
}

static bool is_written(const dtn_bundle_t *bundle, uint32_t value)
{
    for (uint32_t i = 0; i < bundle->step_count; i++) {
        const dtn_step_t *step = &bundle->steps[i];
        if (names(bundle->words + step->first + step->inputs, step->outputs, value)) {
            return true;
        }
    }
    return false;
}

/* Bytes of a memory that two values share; if there are none, `to` is not above `from`. */
typedef struct {
    uint32_t memory;
    uint32_t from;
    uint32_t to;
} common_t;

static common_t common_of(const dtn_value_t *a, const dtn_value_t *b)
{
    uint32_t a_end = a->offset + a->bytes;
    uint32_t b_end = b->offset + b->bytes;
    return (common_t){a->memory, a->offset > b->offset ? a->offset : b->offset, a_end < b_end ? a_end : b_end};
}

/* The last writer of all common bytes after a step: value `own`, or any other. */
static writer_t writer_after(const dtn_bundle_t *bundle, const dtn_step_t *step, uint32_t own, const common_t *common,
                             writer_t before)
{
    const uint32_t *outputs = bundle->words + step->first + step->inputs;
    for (uint32_t i = 0; i < step->outputs; i++) {
        const dtn_value_t *value = &bundle->values[outputs[i]];
        if (value->memory == common->memory && value->offset <= common->from &&
            value->offset + value->bytes >= common->to) {
            return outputs[i] == own ? OWN : OTHER;
        }
    }
    return before;
}

/*
 * True if value `own` may move while `other`, which overlaps it, stays: `own` is read only after it was written last,
 * and `other` only if `own` was not. With `other` equal to `own`, only the first is checked.
 */
static bool is_independent(const dtn_bundle_t *bundle, uint32_t own, uint32_t other)
{
    const common_t common = common_of(&bundle->values[own], &bundle->values[other]);
    bool is_pair = own != other;
    bool is_input = names(bundle->inputs, bundle->input_count, own);
    writer_t writer = is_input ? OWN : NONE;
    if (is_pair && names(bundle->inputs, bundle->input_count, other)) {
        if (is_input) {
            return false;
        }
        writer = OTHER;
    }
    for (uint32_t i = 0; i <= bundle->step_count; i++) {
        bool is_end = i == bundle->step_count; /* the caller reads the outputs */
        const dtn_step_t *step = is_end ? NULL : &bundle->steps[i];
        const uint32_t *read = is_end ? bundle->outputs : bundle->words + step->first;
        uint32_t count = is_end ? bundle->output_count : step->inputs;
        if ((writer != OWN && names(read, count, own)) || (writer == OWN && is_pair && names(read, count, other))) {
            return false;
        }
        writer = is_end ? writer : writer_after(bundle, step, own, &common, writer);
    }
    return true;
}

/* True if a value may move out of the program's memory. */
static bool is_movable(const dtn_bundle_t *bundle, uint32_t index)
{
    const dtn_value_t *value = &bundle->values[index];
    /* Constants are read-only, and microcode contains the places in the working memory. */
    if (value->memory >= bundle->memory_count - 1) {
        return false;
    }
    for (uint32_t i = 0; i < bundle->value_count; i++) {
        bool is_concerned = i == index || !dtn_values_are_disjoint(value, &bundle->values[i]);
        if (is_concerned && !is_independent(bundle, index, i)) {
            return false;
        }
    }
    return true;
}

/* True if the buffer of a binding overlaps memory that a run writes or, if the buffer is written, reads. `replaced` is
 * the binding that it replaces. */
static bool overlaps_any(const dtn_executor_t *executor, const dtn_binding_t *binding, const dtn_binding_t *replaced)
{
    const dtn_bundle_t *bundle = executor->bundle;
    const void *data = binding->data;
    uint32_t bytes = binding->value->bytes;
    for (uint32_t i = 0; i < bundle->memory_count; i++) {
        if (dtn_overlaps(data, bytes, executor->memories[i].data, bundle->memory_bytes[i])) {
            return true;
        }
    }
    if (executor->contexts != NULL &&
        dtn_overlaps(data, bytes, executor->contexts, bundle->delegate_count * DTN_CONTEXT_BYTES)) {
        return true;
    }
    for (uint32_t i = 0; binding->is_written && i < bundle->constant_count; i++) {
        if (dtn_overlaps(data, bytes, bundle->constants[i].data, bundle->constants[i].bytes)) {
            return true;
        }
    }
    for (const dtn_binding_t *bound = executor->bindings; bound != NULL; bound = bound->next) {
        if (bound != replaced && (binding->is_written || bound->is_written) &&
            dtn_overlaps(data, bytes, bound->data, bound->value->bytes)) {
            return true;
        }
    }
    return false;
}

static const dtn_binding_t *binding_of(const dtn_executor_t *executor, const dtn_value_t *value)
{
    const dtn_binding_t *binding = executor->bindings;
    while (binding != NULL && binding->value != value) {
        binding = binding->next;
    }
    return binding;
}

/* Removes a binding from the list, if it is in it. */
static void remove_binding(dtn_executor_t *executor, const dtn_binding_t *binding)
{
    dtn_binding_t **link = &executor->bindings;
    while (*link != NULL && *link != binding) {
        link = &(*link)->next;
    }
    if (*link != NULL) {
        *link = (*link)->next;
    }
}

/* Binds tensor `tensor` of the program, inputs first, which is value `index`. */
static NeutronError bind(dtn_executor_t *executor, uint32_t tensor, uint32_t index, dtn_binding_t *binding, void *data,
                         size_t bytes)
{
    const dtn_bundle_t *bundle = executor->bundle;
    dtn_binding_t bound = {.value = &bundle->values[index], .data = data};
    if (executor->is_stepped) {
        return dtn_error(DTN_REASON_RUN_STATE, 0);
    }
    if (binding == NULL || data == NULL) {
        return dtn_error(DTN_REASON_NULL_POINTER, 0);
    }
    if (!dtn_is_aligned(data)) {
        return dtn_error(DTN_REASON_MISALIGNED, 0);
    }
    if (bytes < bound.value->bytes) {
        return dtn_error(DTN_REASON_BUFFER_SIZE, tensor);
    }
    const dtn_binding_t *before = binding_of(executor, bound.value);
    if (before != NULL) {
        bound.is_written = before->is_written; /* changing buffers between runs does not check the plan again */
    } else {
        bound.is_written = is_written(bundle, index);
        if ((bound.is_written && tensor < bundle->input_count) || !is_movable(bundle, index)) {
            return dtn_error(DTN_REASON_BUFFER_SHARED, tensor);
        }
    }
    if (overlaps_any(executor, &bound, before)) {
        return dtn_error(DTN_REASON_BUFFER_OVERLAP, tensor);
    }
    remove_binding(executor, before);
    remove_binding(executor, binding); /* it may belong to another value */
    bound.next = executor->bindings;
    *binding = bound;
    executor->bindings = binding;
    return ENONE;
}

NeutronError dtn_executor_bind_input(dtn_executor_t *executor, uint32_t index, dtn_binding_t *binding, void *data,
                                     size_t bytes)
{
    if (executor == NULL || executor->bundle == NULL) {
        return dtn_error(DTN_REASON_NULL_POINTER, 0);
    }
    if (index >= executor->bundle->input_count) {
        return dtn_error(DTN_REASON_TENSOR_INDEX, index);
    }
    return bind(executor, index, executor->bundle->inputs[index], binding, data, bytes);
}

NeutronError dtn_executor_bind_output(dtn_executor_t *executor, uint32_t index, dtn_binding_t *binding, void *data,
                                      size_t bytes)
{
    if (executor == NULL || executor->bundle == NULL) {
        return dtn_error(DTN_REASON_NULL_POINTER, 0);
    }
    uint32_t tensor = executor->bundle->input_count + index;
    if (index >= executor->bundle->output_count) {
        return dtn_error(DTN_REASON_TENSOR_INDEX, tensor);
    }
    return bind(executor, tensor, executor->bundle->outputs[index], binding, data, bytes);
}

NeutronError dtn_executor_unbind(dtn_executor_t *executor, const dtn_binding_t *binding)
{
    if (executor == NULL || executor->bundle == NULL || binding == NULL) {
        return dtn_error(DTN_REASON_NULL_POINTER, 0);
    }
    if (executor->is_stepped) {
        return dtn_error(DTN_REASON_RUN_STATE, 0);
    }
    remove_binding(executor, binding);
    return ENONE;
}
