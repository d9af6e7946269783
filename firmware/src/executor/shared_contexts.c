/* Contexts outside the working memory, which other programs use too. */
#include <stddef.h>

#include "../driver/types.h"
#include "bundle.h"
#include "deuteron/errors.h"
#include "executor.h"

static NeutronError contexts_check(const dtn_bundle_t *bundle, const dtn_memory_t *memories,
                                   const dtn_memory_t *contexts)
{
    if (contexts->bytes / DTN_CONTEXT_BYTES < bundle->delegate_count) {
        return dtn_error(DTN_REASON_MEMORY_SIZE, bundle->memory_count);
    }
    if (contexts->data == NULL && bundle->delegate_count != 0) {
        return dtn_error(DTN_REASON_NULL_POINTER, 0);
    }
    if (!dtn_is_aligned(contexts->data)) {
        return dtn_error(DTN_REASON_MISALIGNED, 0);
    }
    for (uint32_t i = 0; i < bundle->memory_count; i++) {
        if (dtn_overlaps(contexts->data, contexts->bytes, memories[i].data, bundle->memory_bytes[i])) {
            return dtn_error(DTN_REASON_MEMORY_OVERLAP, bundle->memory_count);
        }
    }
    return ENONE;
}

NeutronError dtn_executor_init_shared(dtn_executor_t *executor, const dtn_bundle_t *bundle,
                                      const dtn_memory_t *memories, const dtn_memory_t *contexts)
{
    if (executor == NULL) {
        return dtn_error(DTN_REASON_NULL_POINTER, 0);
    }
    *executor = (dtn_executor_t){.memories = memories};
    if (contexts == NULL) {
        return dtn_error(DTN_REASON_NULL_POINTER, 0);
    }
    NeutronError error = dtn_bundle_check(bundle, memories);
    if (error == ENONE) {
        error = contexts_check(bundle, memories, contexts);
    }
    executor->contexts = (uint8_t *)contexts->data;
    return error == ENONE ? dtn_executor_prepare(executor, bundle) : error;
}
