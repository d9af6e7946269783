/* One step: its words checked, then handed to the operator or the delegate. */
#include "step.h"

#include "../driver/call.h"
#include "delegate.h"
#include "values.h"

/* Where the value lies that word `word` names. */
static dtn_ref_t ref_of(const dtn_bundle_t *bundle, uint32_t word)
{
    const dtn_value_t *value = dtn_value(bundle, word);
    const dtn_ref_t ref = {value->memory, value->offset, value->bytes};
    return ref;
}

/* True when the words exist, name values, and outputs can be written. */
static bool words_check(const dtn_bundle_t *bundle, const dtn_step_t *step)
{
    /* Each sum is looked at once those before it fit: then it does not overflow. */
    uint32_t values = step->inputs + step->outputs;
    if (!dtn_is_inside(step->first, step->inputs, bundle->word_count) ||
        !dtn_is_inside(step->first + step->inputs, step->outputs, bundle->word_count) ||
        !dtn_is_inside(step->first + values, step->params, bundle->word_count)) {
        return false;
    }
    for (uint32_t i = 0; i < values; i++) {
        if (bundle->words[step->first + i] >= bundle->value_count) {
            return false;
        }
        if (i < step->inputs) {
            continue;
        }
        const dtn_ref_t output = ref_of(bundle, step->first + i);
        if (output.place >= DTN_MEMORY_CONSTANT) {
            return false;
        }
        if (step->kind == DTN_STEP_DELEGATE && output.place == bundle->memory_count - 1) {
            continue; /* the delegate writes it when it has read what lay there */
        }
        for (uint32_t j = 0; j < i; j++) {
            const dtn_ref_t other = ref_of(bundle, step->first + j);
            if (!dtn_is_apart(&output, &other)) {
                return false;
            }
        }
    }
    return true;
}

static dtn_reason_t operator_call(const dtn_executor_t *executor, const dtn_step_t *step, dtn_phase_t phase)
{
    uint32_t first = step->first;
    uint32_t values = step->inputs + step->outputs;
    dtn_operator_call_t call;
    call.params = executor->bundle->words + first + values;
    call.param_count = step->params;
    call.input_count = step->inputs;
    call.output_count = step->outputs;
    for (uint32_t i = 0; i < values; i++) {
        call.values[i] = dtn_value_tensor(executor, first + i);
    }
    return (dtn_reason_t)executor->bundle->operators[step->index](&call, phase);
}

NeutronError dtn_step_call(const dtn_executor_t *executor, uint32_t index, dtn_phase_t phase)
{
    const dtn_step_t *step = &executor->bundle->steps[index];
    if (step->kind == DTN_STEP_DELEGATE) {
        return dtn_delegate_call(executor, step, phase);
    }
    return dtn_error(operator_call(executor, step, phase), index);
}

/* What must hold before any operator or NPU is asked. */
static dtn_reason_t form_check(const dtn_bundle_t *bundle, const dtn_step_t *step)
{
    if (!words_check(bundle, step)) {
        return DTN_REASON_BUNDLE_STEP;
    }
    if (step->kind == DTN_STEP_OPERATOR && step->index < bundle->operator_count &&
        bundle->operators[step->index] != NULL) {
        return step->inputs + step->outputs > DTN_MAX_OPERATOR_VALUES ? DTN_REASON_OPERATOR : DTN_OK;
    }
    if (step->kind == DTN_STEP_DELEGATE && step->index < bundle->delegate_count) {
        return step->params != 0 ? DTN_REASON_DELEGATE : DTN_OK;
    }
    return DTN_REASON_BUNDLE_STEP;
}

NeutronError dtn_step_check(const dtn_executor_t *executor, uint32_t index)
{
    dtn_reason_t reason = form_check(executor->bundle, &executor->bundle->steps[index]);
    return reason != DTN_OK ? dtn_error(reason, index) : dtn_step_call(executor, index, DTN_PHASE_CHECK);
}
