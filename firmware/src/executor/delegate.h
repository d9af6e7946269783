/**
 * @file
 * The delegates of a bundle, each run by its NPU's family.
 */
#ifndef DTN_DELEGATE_H
#define DTN_DELEGATE_H

#include "deuteron/npu.h"

/** Prepares all delegates of a checked bundle and checks the size of the working memory. */
NeutronError dtn_delegates_prepare(const dtn_executor_t *executor);

/** Ends the use of all contexts; the first error, if there are any. */
NeutronError dtn_delegates_unprepare(const dtn_executor_t *executor);

/** Checks that the values of the step, whose number is `index`, are what its delegate takes, or runs it. */
NeutronError dtn_delegate_call(const dtn_executor_t *executor, uint32_t index, dtn_phase_t phase);

#if DTN_PROFILING
/** What `records` of deuteron/npu.h says of the delegate that the step ran last. */
const uint32_t *dtn_delegate_records(const dtn_executor_t *executor, const dtn_step_t *step, uint32_t *count);
#endif

#endif /* DTN_DELEGATE_H */
