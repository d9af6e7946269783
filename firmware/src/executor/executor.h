/**
 * @file
 * Shared parts of preparing and running an executor. Arguments are already checked.
 */
#ifndef DTN_EXECUTOR_EXECUTOR_H
#define DTN_EXECUTOR_EXECUTOR_H

#include <stddef.h>

#include "delegate.h"
#include "deuteron/executor.h"
#include "deuteron/port.h"
#include "run_step.h"

/** Prepares an executor, which has its memories and contexts, for a bundle with checked tables. */
static inline NeutronError dtn_executor_prepare(dtn_executor_t *executor, const dtn_bundle_t *bundle)
{
    executor->bundle = bundle;
    NeutronError error = dtn_delegates_prepare(executor);
    for (uint32_t i = 0; error == ENONE && i < bundle->step_count; i++) {
        error = dtn_step_check(executor, i);
    }
    if (error != ENONE) {
        /* Prepared contexts are in the caller's memory: nothing must be freed. */
        executor->bundle = NULL;
    }
    return error;
}

/** Runs the next step; there must be one. */
NeutronError dtn_run_step(dtn_executor_t *executor);

/** Copies the inputs (DTN_EVENT_COPY_IN) or outputs of the program from or to the caller's buffers, if there are any.
 */
NeutronError dtn_run_copy(dtn_executor_t *executor, uint32_t kind, const void *const *buffers);

/** The time, for a caller that wants events. */
static inline uint32_t dtn_run_ticks(const dtn_executor_t *executor)
{
    return executor->events == NULL ? 0 : dtn_port_ticks();
}

/** Starts a run, and copies its inputs. */
static inline NeutronError dtn_run_start(dtn_executor_t *executor, const void *const *inputs)
{
    executor->event_count = 0;
    executor->step = 0;
    executor->is_stepped = false;
#if DTN_PROFILING
    executor->event_lost = 0;
    executor->run_start = dtn_run_ticks(executor);
#endif
    return dtn_run_copy(executor, DTN_EVENT_COPY_IN, inputs);
}

#endif /* DTN_EXECUTOR_EXECUTOR_H */
