#include "run.h"

#include <stddef.h>

#include "deuteron/port.h"

/* NULL if the port has no pin, in images of programs without state, which do not link state.c, and in those whose
 * application never pauses a run, which do not link stepped_run.c. */
__attribute__((weak)) void dtn_port_trigger(uint32_t pin, bool level);
__attribute__((weak)) NeutronError dtn_executor_reset(dtn_executor_t *executor);
__attribute__((weak)) NeutronError dtn_executor_start(dtn_executor_t *executor, const void *const *inputs);
__attribute__((weak)) NeutronError dtn_executor_step(dtn_executor_t *executor);
__attribute__((weak)) NeutronError dtn_executor_finish(dtn_executor_t *executor, void *const *outputs);
__attribute__((weak)) uint32_t dtn_executor_steps_left(const dtn_executor_t *executor);

static void trigger(uint32_t pin, bool level)
{
    if (dtn_port_trigger != NULL) {
        dtn_port_trigger(pin, level);
    }
}

/* Runs step by step: to pause between two of them, or to show each to an energy meter. */
static NeutronError run_steps(dtn_executor_t *executor, const dtn_run_request_t *request)
{
    NeutronError error = request->is_continued ? ENONE : dtn_executor_start(executor, request->inputs);
    bool level = false;
    while (error == ENONE && executor->step < request->stop && dtn_executor_steps_left(executor) != 0) {
        level = !level; /* an edge for each call: a meter would miss a pulse between two steps */
        trigger(DTN_TRIGGER_STEP, level);
        error = dtn_executor_step(executor);
    }
    if (error == ENONE && dtn_executor_steps_left(executor) == 0) {
        error = dtn_executor_finish(executor, request->outputs);
    }
    return error;
}

static NeutronError run(dtn_executor_t *executor, const dtn_run_request_t *request)
{
    return dtn_executor_step == NULL ? dtn_executor_run(executor, request->inputs, request->outputs)
                                     : run_steps(executor, request);
}

static uint32_t events_lost(const dtn_executor_t *executor)
{
#if DTN_PROFILING
    return executor->event_lost;
#else
    bool is_complete = executor->events == NULL || executor->step < executor->event_count;
    return is_complete ? 0 : executor->step - executor->event_count;
#endif
}

void dtn_runner_run(dtn_executor_t *executor, const dtn_run_request_t *request, dtn_harness_run_t *result)
{
    trigger(DTN_TRIGGER_RUN, true);
    result->start = dtn_port_ticks();
    result->error = (uint32_t)run(executor, request);
    result->stop = dtn_port_ticks();
    trigger(DTN_TRIGGER_RUN, false);
    trigger(DTN_TRIGGER_STEP, false);
    result->step = executor->step;
    result->stack_used = dtn_stack_used();
    result->events = executor->event_count;
    result->lost = events_lost(executor);
}

NeutronError dtn_runner_reset(dtn_executor_t *executor)
{
    return dtn_executor_reset == NULL ? ENONE : dtn_executor_reset(executor);
}
