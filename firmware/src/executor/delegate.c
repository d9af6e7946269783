/*
 * The delegates of a bundle. The working memory holds, as bundle.h says, a context for each, and then what only one at
 * a time needs: the table of its tensors' addresses, which may be too long for a stack, scratch, profile and prefetch
 * area.
 */
#include "../driver/types.h"
#include "internal.h"

typedef char pointer_fits_its_place[sizeof(void *) <= DTN_POINTER_BYTES ? 1 : -1];

static uint8_t *working_memory(const dtn_executor_t *executor)
{
    return (uint8_t *)executor->memories[executor->bundle->memory_count - 1].data;
}

static NeutronModelHandle handle_of(const dtn_executor_t *executor, uint32_t delegate)
{
    return working_memory(executor) + delegate * DTN_CONTEXT_BYTES;
}

/* Bytes of the addresses of inputs, outputs, scratch and profile. */
static uint32_t table_bytes(const dtn_model_info_t *info)
{
    uint32_t bytes = (info->inputs + info->outputs + 2) * DTN_POINTER_BYTES;
    return (bytes + DTN_ALIGNMENT - 1) / DTN_ALIGNMENT * DTN_ALIGNMENT;
}

/* Whether each block is as long as the driver will take it to be: it goes by the sizes that the blocks state. */
static dtn_reason_t blocks_check(const dtn_delegate_t *delegate)
{
    const uint32_t *header = (const uint32_t *)delegate->microcode.data;
    const uint32_t *kernels = (const uint32_t *)delegate->kernels.data;
    if (header == NULL || kernels == NULL) {
        return DTN_REASON_NULL_POINTER;
    }
    if (!dtn_is_aligned(header) || !dtn_is_aligned(kernels)) {
        return DTN_REASON_MISALIGNED;
    }
    if (delegate->microcode.bytes < DTN_HEADER_WORDS * DTN_WORD_BYTES ||
        header[DTN_HEADER_MICROCODE_BYTES] > delegate->microcode.bytes ||
        header[DTN_HEADER_WEIGHTS_BYTES] > delegate->weights.bytes || delegate->kernels.bytes < DTN_WORD_BYTES ||
        kernels[0] > delegate->kernels.bytes / DTN_WORD_BYTES - 1) {
        return DTN_REASON_DELEGATE_BLOCK;
    }
    return DTN_OK;
}

/* Prepares one delegate, whose context the working memory has room for, with `left` bytes beside the contexts. */
static NeutronError prepare(const dtn_executor_t *executor, uint32_t index, uint32_t left)
{
    const dtn_delegate_t *delegate = &executor->bundle->delegates[index];
    dtn_reason_t reason = blocks_check(delegate);
    if (reason != DTN_OK) {
        return dtn_error(reason, reason == DTN_REASON_DELEGATE_BLOCK ? index : 0);
    }
    NeutronModelConfig config = {delegate->microcode.data, delegate->weights.data, delegate->kernels.data, 0};
    NeutronModelHandle handle = handle_of(executor, index);
    NeutronError error = neutronModelPrepare(&config, &handle);
    dtn_model_info_t info;
    if (error == ENONE) {
        error = dtn_model_info(handle, &info);
    }
    if (error == ENONE && executor->bundle->delegate_count == 1) {
        /* The working memory is this bundle's alone, and here also this delegate's. */
        error = dtn_model_keep_prefetch(handle, true);
    }
    if (error != ENONE) {
        return error;
    }
    uint64_t needed = (uint64_t)table_bytes(&info) + info.scratch_bytes + info.profile_bytes + info.prefetch_bytes;
    return needed <= left ? ENONE : dtn_error(DTN_REASON_MEMORY_SIZE, executor->bundle->memory_count - 1);
}

NeutronError dtn_delegates_prepare(const dtn_executor_t *executor)
{
    uint32_t last = executor->bundle->memory_count - 1;
    uint32_t left = executor->bundle->memory_bytes[last];
    if (executor->bundle->delegate_count > left / DTN_CONTEXT_BYTES) {
        return dtn_error(DTN_REASON_MEMORY_SIZE, last);
    }
    left -= executor->bundle->delegate_count * DTN_CONTEXT_BYTES;
    for (uint32_t i = 0; i < executor->bundle->delegate_count; i++) {
        NeutronError error = prepare(executor, i, left);
        if (error != ENONE) {
            return error;
        }
    }
    return ENONE;
}

NeutronError dtn_delegates_unprepare(const dtn_executor_t *executor)
{
    NeutronError first = ENONE;
    for (uint32_t i = 0; i < executor->bundle->delegate_count; i++) {
        NeutronError error = neutronModelUnprepare(handle_of(executor, i));
        first = first == ENONE ? error : first;
    }
    return first;
}

dtn_reason_t dtn_delegate_check(const dtn_executor_t *executor, const dtn_step_t *step)
{
    dtn_model_info_t info;
    if (dtn_model_info(handle_of(executor, step->index), &info) != ENONE || step->params != 0 ||
        step->inputs != info.inputs || step->outputs != info.outputs) {
        return DTN_REASON_DELEGATE;
    }
    for (uint32_t i = 0; i < step->inputs + step->outputs; i++) {
        if (dtn_value(executor->bundle, step->first + i)->bytes != info.tensor_bytes[i]) {
            return DTN_REASON_DELEGATE;
        }
    }
    return DTN_OK;
}

NeutronError dtn_delegate_run(const dtn_executor_t *executor, const dtn_step_t *step)
{
    NeutronModelHandle handle = handle_of(executor, step->index);
    dtn_model_info_t info;
    NeutronError error = dtn_model_info(handle, &info);
    if (error != ENONE) {
        return error;
    }
    uint8_t *table = (uint8_t *)handle_of(executor, executor->bundle->delegate_count);
    uint8_t *scratch = table + table_bytes(&info);
    uint8_t *profile = scratch + info.scratch_bytes;
    void **pointers = (void **)(void *)table;
    uint32_t values = step->inputs + step->outputs;
    for (uint32_t i = 0; i < values; i++) {
        pointers[i] = dtn_value_data(executor, dtn_value(executor->bundle, step->first + i));
    }
    pointers[values] = scratch;
    pointers[values + 1] = profile;
    NeutronDataConfig data = {
        .inputs = (const void **)(void *)pointers,
        .outputs = pointers + step->inputs,
        .scratchWeights = profile + info.profile_bytes,
    };
    return neutronRunBlocking(handle, &data);
}

#if DTN_PROFILING
const uint32_t *dtn_delegate_profile(const dtn_executor_t *executor, const dtn_step_t *step, uint32_t *records)
{
    dtn_model_info_t info;
    if (dtn_model_info(handle_of(executor, step->index), &info) != ENONE) {
        *records = 0;
        return NULL;
    }
    const uint8_t *table = (const uint8_t *)handle_of(executor, executor->bundle->delegate_count);
    *records = info.profile_bytes / DTN_PROFILE_RECORD_BYTES;
    return (const uint32_t *)(const void *)(table + table_bytes(&info) + info.scratch_bytes);
}
#endif
