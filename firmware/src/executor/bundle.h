/**
 * @file
 * The first check, which alone reads an unchecked bundle.
 */
#ifndef DTN_EXECUTOR_BUNDLE_H
#define DTN_EXECUTOR_BUNDLE_H

#include <stdbool.h>

#include "deuteron/executor.h"

/** True if two blocks of memory share a byte. */
static inline bool dtn_overlaps(const void *a, uint32_t a_bytes, const void *b, uint32_t b_bytes)
{
    /* The difference wraps for the block that starts later. */
    uintptr_t distance = (uintptr_t)a - (uintptr_t)b;
    return a_bytes != 0 && b_bytes != 0 && (distance < b_bytes || 0 - distance < a_bytes);
}

/** Checks tables, memories, constants, values and blocks: everything that steps and delegates refer to. */
NeutronError dtn_bundle_check(const dtn_bundle_t *bundle, const dtn_memory_t *memories);

#endif /* DTN_EXECUTOR_BUNDLE_H */
