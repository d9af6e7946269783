/**
 * @file
 * One step of the program.
 */
#ifndef DTN_STEP_H
#define DTN_STEP_H

#include "deuteron/executor.h"

/** Checks the step, whose number is `index`; the delegates are prepared. */
NeutronError dtn_step_check(const dtn_executor_t *executor, uint32_t index);

/** Runs the checked step. */
NeutronError dtn_step_run(const dtn_executor_t *executor, uint32_t index);

#endif /* DTN_STEP_H */
