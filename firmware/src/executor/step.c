/* One step: its words checked, then handed to the operator or the delegate. */
#include "step.h"

#include <stddef.h>

#include "../driver/call.h"
#include "delegate.h"
#include "values.h"

/* What `dtn_is_apart` reads of a value. */
typedef char values_begin_with_their_place[offsetof(dtn_value_t, offset) == sizeof(uint32_t) &&
                                                   offsetof(dtn_value_t, bytes) == 2 * sizeof(uint32_t)
                                               ? 1
                                               : -1];

/* Whether all numbers together are no more than `most`; the sum may not fit its type. */
static bool is_sum_within(const uint32_t *numbers, uint32_t count, uint32_t most)
{
    for (uint32_t i = 0; i < count; i++) {
        if (numbers[i] > most) {
            return false;
        }
        most -= numbers[i];
    }
    return true;
}

/* True when the words exist, name values, and outputs can be written. */
static bool words_check(const dtn_bundle_t *bundle, const dtn_step_t *step)
{
    uint32_t values = step->inputs + step->outputs;
    if (!is_sum_within(&step->first, 4, bundle->word_count)) {
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
        if (step->kind == DTN_STEP_DELEGATE && output->memory == bundle->memory_count - 1) {
            continue; /* the delegate writes it when it has read what lay there */
        }
        for (uint32_t j = 0; j < i; j++) {
            if (!dtn_is_apart(&output->memory, &dtn_value(bundle, step->first + j)->memory)) {
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
