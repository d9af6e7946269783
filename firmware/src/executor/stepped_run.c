/* A run whose steps the application requests one by one. */
#include "executor.h"

#include <stddef.h>

#include "deuteron/errors.h"

uint32_t dtn_executor_steps_left(const dtn_executor_t *executor)
{
    if (executor == NULL || executor->bundle == NULL || !executor->is_stepped) {
        return 0;
    }
    return executor->bundle->step_count - executor->step;
}

NeutronError dtn_executor_start(dtn_executor_t *executor, const void *const *inputs)
{
    if (executor == NULL || executor->bundle == NULL) {
        return dtn_error(DTN_REASON_NULL_POINTER, 0);
    }
    NeutronError error = dtn_run_start(executor, inputs);
    executor->is_stepped = error == ENONE;
    return error;
}

NeutronError dtn_executor_step(dtn_executor_t *executor)
{
    if (dtn_executor_steps_left(executor) == 0) {
        return dtn_error(DTN_REASON_RUN_STATE, 0);
    }
    const dtn_step_t *step;
    NeutronError error;
    do { /* a change of the state is one unit, which ends the program */
        step = &executor->bundle->steps[executor->step];
        error = dtn_run_step(executor);
    } while (error == ENONE && step->kind == DTN_STEP_CHANGE && executor->step != executor->bundle->step_count);
    executor->is_stepped = error == ENONE;
    return error;
}

NeutronError dtn_executor_finish(dtn_executor_t *executor, void *const *outputs)
{
    if (executor == NULL || executor->bundle == NULL) {
        return dtn_error(DTN_REASON_NULL_POINTER, 0);
    }
    if (!executor->is_stepped || executor->step != executor->bundle->step_count) {
        return dtn_error(DTN_REASON_RUN_STATE, 0);
    }
    NeutronError error = dtn_run_copy(executor, DTN_EVENT_COPY_OUT, (const void *const *)outputs);
    executor->is_stepped = error != ENONE;
#if DTN_PROFILING
    executor->run_stop = dtn_run_ticks(executor);
#endif
    return error;
}
