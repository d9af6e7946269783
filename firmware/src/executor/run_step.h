/**
 * @file
 * One step of the program.
 */
#ifndef DTN_RUN_STEP_H
#define DTN_RUN_STEP_H

#include "deuteron/executor.h"

/** Checks step `index`; the delegates are prepared. */
NeutronError dtn_step_check(const dtn_executor_t *executor, uint32_t index);

/** Calls the operator or delegate of the checked step. */
NeutronError dtn_step_call(const dtn_executor_t *executor, uint32_t index, dtn_phase_t phase);

#endif /* DTN_RUN_STEP_H */
