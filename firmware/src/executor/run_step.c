/* Checks the words of one step, then calls its operator or delegate. */
#include "run_step.h"

#include "delegate.h"
#include "values.h"

/* True if the words exist and name values, and outputs can be written. */
static bool words_check(const dtn_bundle_t *bundle, const dtn_step_t *step)
{
    /* Words have 4 bytes: counts below a quarter of the address space cannot overflow 32 bits when added. */
    if ((step->first | step->inputs | step->outputs | step->params) >> 30 != 0 ||
        step->first + step->inputs + step->outputs + step->params > bundle->word_count) {
        return false;
    }
    const uint32_t *words = bundle->words + step->first;
    for (uint32_t i = 0; i < step->inputs + step->outputs; i++) {
        if (words[i] >= bundle->value_count) {
            return false;
        }
        if (i < step->inputs) {
            continue;
        }
        const dtn_value_t *output = &bundle->values[words[i]];
        if (output->memory >= DTN_MEMORY_CONSTANT) {
            return false;
        }
        if (step->kind == DTN_STEP_DELEGATE && output->memory == bundle->memory_count - 1) {
            continue; /* the delegate writes it after it has read the old content */
        }
        for (uint32_t j = 0; j < i; j++) {
            if (!dtn_values_are_disjoint(output, &bundle->values[words[j]])) {
                return false;
            }
        }
    }
    return true;
}

static dtn_reason_t operator_call(const dtn_executor_t *executor, const dtn_step_t *step, dtn_phase_t phase)
{
    const dtn_bundle_t *bundle = executor->bundle;
    uint32_t values = step->inputs + step->outputs;
    dtn_operator_call_t call;
    call.params = bundle->words + step->first + values;
    call.param_count = step->params;
    call.input_count = step->inputs;
    call.output_count = step->outputs;
    dtn_value_tensors(executor, step->first, values, call.values);
    return (dtn_reason_t)bundle->operators[step->index](&call, phase);
}

NeutronError dtn_step_call(const dtn_executor_t *executor, uint32_t index, dtn_phase_t phase)
{
    const dtn_step_t *step = &executor->bundle->steps[index];
    if (step->kind == DTN_STEP_DELEGATE) {
        return dtn_delegate_call(executor, index, phase);
    }
    return dtn_error(operator_call(executor, step, phase), index);
}

/* Checks that precede those of an operator or NPU. */
static dtn_reason_t form_check(const dtn_bundle_t *bundle, const dtn_step_t *step)
{
    bool is_delegate = step->kind == DTN_STEP_DELEGATE;
    if (step->kind > DTN_STEP_CHANGE || !words_check(bundle, step) ||
        step->index >= (is_delegate ? bundle->delegate_count : bundle->operator_count) ||
        (!is_delegate && bundle->operators[step->index] == NULL)) {
        return DTN_REASON_BUNDLE_STEP;
    }
    if (is_delegate) {
        return step->params != 0 ? DTN_REASON_DELEGATE : DTN_OK;
    }
    return step->inputs + step->outputs > DTN_MAX_OPERATOR_VALUES ? DTN_REASON_OPERATOR : DTN_OK;
}

NeutronError dtn_step_check(const dtn_executor_t *executor, uint32_t index)
{
    dtn_reason_t reason = form_check(executor->bundle, &executor->bundle->steps[index]);
    return reason != DTN_OK ? dtn_error(reason, index) : dtn_step_call(executor, index, DTN_PHASE_CHECK);
}
