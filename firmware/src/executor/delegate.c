/*
 * The delegates of a bundle. As in bundle.h, the working memory starts with a context for each, unless the executor has
 * other memory for contexts; memory that one delegate at a time uses follows.
 */
#include "delegate.h"

#include <stddef.h>

#include "cache.h"

static const dtn_npu_t *npu_of(const dtn_executor_t *executor, uint32_t index)
{
    return executor->bundle->delegates[index].npu;
}

/* Bytes of the working memory that contain contexts. */
static size_t context_bytes(const dtn_bundle_t *bundle)
{
    return (size_t)bundle->delegate_count * DTN_CONTEXT_BYTES;
}

static dtn_partition_t partition_of(const dtn_executor_t *executor, uint32_t index)
{
    const dtn_bundle_t *bundle = executor->bundle;
    const dtn_delegate_t *delegate = &bundle->delegates[index];
    uint8_t *memory = (uint8_t *)executor->memories[bundle->memory_count - 1].data;
    dtn_partition_t partition = {
        .blocks = bundle->constants + delegate->first,
        .block_count = delegate->blocks,
        .index = index,
        .is_alone = bundle->delegate_count == 1 && executor->contexts == NULL,
        .context = (executor->contexts == NULL ? memory : executor->contexts) + (size_t)index * DTN_CONTEXT_BYTES,
        .working = memory + context_bytes(bundle),
    };
    return partition;
}

NeutronError dtn_delegates_prepare(const dtn_executor_t *executor)
{
    const dtn_bundle_t *bundle = executor->bundle;
    uint32_t last = bundle->memory_count - 1;
    size_t bytes = bundle->memory_bytes[last];
    if (bundle->delegate_count > bytes / DTN_CONTEXT_BYTES) {
        return dtn_error(DTN_REASON_MEMORY_SIZE, last);
    }
    for (uint32_t i = 0; i < bundle->delegate_count; i++) {
        const dtn_npu_t *npu = npu_of(executor, i);
        dtn_partition_t partition = partition_of(executor, i);
        NeutronError error = npu->prepare(&partition);
        if (error == ENONE && npu->working_bytes(&partition) > bytes - context_bytes(bundle)) {
            error = dtn_error(DTN_REASON_MEMORY_SIZE, last);
        }
        if (error != ENONE) {
            return error;
        }
        dtn_cache_prepare(&partition);
    }
    return ENONE;
}

NeutronError dtn_delegates_unprepare(const dtn_executor_t *executor)
{
    NeutronError first = ENONE;
    for (uint32_t i = 0; i < executor->bundle->delegate_count; i++) {
        dtn_partition_t partition = partition_of(executor, i);
        NeutronError error = npu_of(executor, i)->unprepare(&partition);
        first = first == ENONE ? error : first;
    }
    return first;
}

NeutronError dtn_delegate_call(const dtn_executor_t *executor, uint32_t index, dtn_phase_t phase)
{
    const dtn_step_t *step = &executor->bundle->steps[index];
    const dtn_npu_t *npu = npu_of(executor, step->index);
    dtn_partition_t partition = partition_of(executor, step->index);
    dtn_npu_call_t call = {executor, step->inputs, step->outputs, step->first};
    if (phase == DTN_PHASE_CHECK) {
        return dtn_error(npu->check(&partition, &call), index);
    }
    dtn_cache_before(npu, &partition, &call);
    NeutronError error = npu->run(&partition, &call);
    dtn_cache_after(npu, &partition, &call);
    return error;
}

#if DTN_PROFILING
const uint32_t *dtn_delegate_records(const dtn_executor_t *executor, const dtn_step_t *step, uint32_t *count)
{
    const dtn_npu_t *npu = npu_of(executor, step->index);
    dtn_partition_t partition = partition_of(executor, step->index);
    *count = 0;
    return npu->records == NULL ? NULL : npu->records(&partition, count);
}
#endif
