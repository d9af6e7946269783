/**
 * @file
 * The check that comes before all others: only it looks at a bundle that is not checked.
 */
#ifndef DTN_EXECUTOR_BUNDLE_H
#define DTN_EXECUTOR_BUNDLE_H

#include "deuteron/executor.h"

/** Checks tables, memories, constants, values and blocks: all that steps and delegates refer to. */
NeutronError dtn_bundle_check(const dtn_bundle_t *bundle, const dtn_memory_t *memories);

#endif /* DTN_EXECUTOR_BUNDLE_H */
