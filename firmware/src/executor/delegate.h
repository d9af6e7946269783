/**
 * @file
 * The delegates of a bundle, each run by its NPU's family.
 */
#ifndef DTN_DELEGATE_H
#define DTN_DELEGATE_H

#include "deuteron/npu.h"

/** Prepares all delegates of a checked bundle and checks the size of the working memory. */
NeutronError dtn_delegates_prepare(const dtn_executor_t *executor);

/** Releases all contexts; returns the first error, if there is one. */
NeutronError dtn_delegates_unprepare(const dtn_executor_t *executor);

/** Checks that the values of step `index` fit its delegate, or runs it. */
NeutronError dtn_delegate_call(const dtn_executor_t *executor, uint32_t index, dtn_phase_t phase);

#if DTN_PROFILING
/** Returns the result of `records` in deuteron/npu.h for the delegate that the step ran last. */
const uint32_t *dtn_delegate_records(const dtn_executor_t *executor, const dtn_step_t *step, uint32_t *count);
#endif

#endif /* DTN_DELEGATE_H */
