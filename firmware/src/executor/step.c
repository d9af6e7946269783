/* One step: its words checked, then handed to the operator or the delegate. */
#include "internal.h"

const dtn_value_t *dtn_value(const dtn_bundle_t *bundle, uint32_t word)
{
    return &bundle->values[bundle->words[word]];
}

void *dtn_value_data(const dtn_executor_t *executor, const dtn_value_t *value)
{
    bool constant = value->memory >= DTN_MEMORY_CONSTANT;
    const uint8_t *base =
        (const uint8_t *)(constant ? executor->bundle->constants[value->memory - DTN_MEMORY_CONSTANT].data
                                   : executor->memories[value->memory].data);
    /* One pointer type serves all values; words_check made sure that no constant is written. */
    return (void *)(base + value->offset);
}

static bool overlap(const dtn_value_t *a, const dtn_value_t *b)
{
    /* Both ends lie in a memory, so that the sums fit. */
    return a->memory == b->memory && a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

/* True when the words exist, name values, and outputs can be written. */
static bool words_check(const dtn_bundle_t *bundle, const dtn_step_t *step)
{
    uint32_t values = step->inputs + step->outputs;
    if ((uint64_t)step->first + step->inputs + step->outputs + step->params > bundle->word_count) {
        return false;
    }
    for (uint32_t i = 0; i < values; i++) {
        if (bundle->words[step->first + i] >= bundle->value_count) {
            return false;
        }
    }
    for (uint32_t i = step->inputs; i < values; i++) {
        const dtn_value_t *output = dtn_value(bundle, step->first + i);
        if (output->memory >= DTN_MEMORY_CONSTANT) {
            return false;
        }
        for (uint32_t j = 0; j < i; j++) {
            if (overlap(output, dtn_value(bundle, step->first + j))) {
                return false;
            }
        }
    }
    return true;
}

static dtn_reason_t operator_call(const dtn_executor_t *executor, const dtn_step_t *step, dtn_phase_t phase)
{
    uint32_t values = step->inputs + step->outputs;
    dtn_operator_call_t call;
    call.params = executor->bundle->words + step->first + values;
    call.param_count = step->params;
    call.input_count = step->inputs;
    call.output_count = step->outputs;
    for (uint32_t i = 0; i < values; i++) {
        const dtn_value_t *value = dtn_value(executor->bundle, step->first + i);
        call.values[i].data = dtn_value_data(executor, value);
        call.values[i].bytes = value->bytes;
        call.values[i].type = value->type;
    }
    return (dtn_reason_t)executor->bundle->operators[step->index](&call, phase);
}

static dtn_reason_t step_check(const dtn_executor_t *executor, const dtn_step_t *step)
{
    const dtn_bundle_t *bundle = executor->bundle;
    if (!words_check(bundle, step)) {
        return DTN_REASON_BUNDLE_STEP;
    }
    if (step->kind == DTN_STEP_OPERATOR && step->index < bundle->operator_count &&
        bundle->operators[step->index] != NULL) {
        return step->inputs + step->outputs > DTN_MAX_OPERATOR_VALUES ? DTN_REASON_OPERATOR
                                                                      : operator_call(executor, step, DTN_PHASE_CHECK);
    }
    if (step->kind == DTN_STEP_DELEGATE && step->index < bundle->delegate_count) {
        return dtn_delegate_check(executor, step);
    }
    return DTN_REASON_BUNDLE_STEP;
}

NeutronError dtn_step_check(const dtn_executor_t *executor, uint32_t index)
{
    return dtn_error(step_check(executor, &executor->bundle->steps[index]), index);
}

NeutronError dtn_step_run(const dtn_executor_t *executor, uint32_t index)
{
    const dtn_step_t *step = &executor->bundle->steps[index];
    if (step->kind == DTN_STEP_DELEGATE) {
        return dtn_delegate_run(executor, step);
    }
    return dtn_error(operator_call(executor, step, DTN_PHASE_RUN), index);
}
