/**
 * @file
 * What the ways to prepare an executor, and the ways to run it, have in common. Arguments are checked before.
 */
#ifndef DTN_EXECUTOR_EXECUTOR_H
#define DTN_EXECUTOR_EXECUTOR_H

#include "deuteron/executor.h"

/** Prepares an executor that has its memories and contexts for a bundle whose tables are checked. */
NeutronError dtn_executor_prepare(dtn_executor_t *executor, const dtn_bundle_t *bundle);

/** Starts a run, and copies its inputs. */
NeutronError dtn_run_start(dtn_executor_t *executor, const void *const *inputs);

/** Runs the next step, of which there is one. */
NeutronError dtn_run_step(dtn_executor_t *executor);

/** Copies the inputs (DTN_EVENT_COPY_IN) or outputs of the program from or to the caller's buffers, where there are. */
NeutronError dtn_run_copy(dtn_executor_t *executor, uint32_t kind, const void *const *buffers);

#endif /* DTN_EXECUTOR_EXECUTOR_H */
