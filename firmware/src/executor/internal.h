/**
 * @file
 * What the files of the executor share. Only `dtn_bundle_check` looks at a bundle that is not checked.
 */
#ifndef DTN_EXECUTOR_INTERNAL_H
#define DTN_EXECUTOR_INTERNAL_H

#include "deuteron/executor.h"

/** Checks tables, memories, constants and values: all that steps and delegates refer to. */
NeutronError dtn_bundle_check(const dtn_bundle_t *bundle, const dtn_memory_t *memories);

/** Checks the step, whose number is `index`; the delegates are prepared. */
NeutronError dtn_step_check(const dtn_executor_t *executor, uint32_t index);

/** Runs the checked step. */
NeutronError dtn_step_run(const dtn_executor_t *executor, uint32_t index);

/** The value that word `word` of the bundle names. */
const dtn_value_t *dtn_value(const dtn_bundle_t *bundle, uint32_t word);

/** The address of a checked value; to be written only where the step may. */
void *dtn_value_data(const dtn_executor_t *executor, const dtn_value_t *value);

/** Checks the delegates' blocks, prepares all and checks the size of the working memory. */
NeutronError dtn_delegates_prepare(const dtn_executor_t *executor);

/** Ends the use of all contexts; the first error, if there are any. */
NeutronError dtn_delegates_unprepare(const dtn_executor_t *executor);

/** Checks that the values of the step are what its delegate takes. */
dtn_reason_t dtn_delegate_check(const dtn_executor_t *executor, const dtn_step_t *step);

/** Runs the delegate of the step. */
NeutronError dtn_delegate_run(const dtn_executor_t *executor, const dtn_step_t *step);

#if DTN_PROFILING
/** The driver's records of the delegate that the step ran last, DTN_PROFILE_RECORD_BYTES each, and their number: one
 * per command and one for the run; 0 without profiling in the microcode. */
const uint32_t *dtn_delegate_profile(const dtn_executor_t *executor, const dtn_step_t *step, uint32_t *records);
#endif

#endif /* DTN_EXECUTOR_INTERNAL_H */
