/*
 * The Neutron family: maps the executor's NPU interface to the driver. A context is the driver's. The working memory
 * holds the table of the tensors' addresses, which may be too long for a stack, then scratch, profile and prefetch
 * area.
 */
#include <stddef.h>

#include "../driver/driver.h"
#include "deuteron/driver.h"
#include "deuteron/npu.h"
#include "values.h"

/* The blocks in order. */
enum { MICROCODE = 0, WEIGHTS = 1, KERNELS = 2, BLOCKS = 3 };

typedef char pointer_fits_its_place[sizeof(void *) <= DTN_POINTER_BYTES ? 1 : -1];

/* Bytes of the addresses of inputs, outputs, scratch and profile. */
static uint32_t table_bytes(const dtn_model_t *model)
{
    uint32_t bytes = (model->inputs + model->outputs + 2) * DTN_POINTER_BYTES;
    return (bytes + DTN_ALIGNMENT - 1) / DTN_ALIGNMENT * DTN_ALIGNMENT;
}

/* True if each block has the size that it states, which the driver relies on. */
static bool is_whole(const dtn_partition_t *partition)
{
    const dtn_constant_t *blocks = partition->blocks;
    if (partition->block_count != BLOCKS || blocks[MICROCODE].bytes < DTN_HEADER_WORDS * DTN_WORD_BYTES ||
        blocks[KERNELS].bytes < DTN_WORD_BYTES) {
        return false;
    }
    const uint32_t *header = (const uint32_t *)blocks[MICROCODE].data;
    const uint32_t *kernels = (const uint32_t *)blocks[KERNELS].data;
    return header[DTN_HEADER_MICROCODE_BYTES] <= blocks[MICROCODE].bytes &&
           header[DTN_HEADER_WEIGHTS_BYTES] <= blocks[WEIGHTS].bytes &&
           kernels[0] <= blocks[KERNELS].bytes / DTN_WORD_BYTES - 1;
}

static NeutronError prepare(const dtn_partition_t *partition)
{
    if (!is_whole(partition)) {
        return dtn_error(DTN_REASON_DELEGATE_BLOCK, partition->index);
    }
    NeutronModelConfig config = {partition->blocks[MICROCODE].data, partition->blocks[WEIGHTS].data,
                                 partition->blocks[KERNELS].data, 0};
    NeutronModelHandle handle = partition->context;
    NeutronError error = neutronModelPrepare(&config, &handle);
    return error == ENONE && partition->is_alone ? dtn_model_keep_prefetch(handle, true) : error;
}

static uint64_t working_bytes(const dtn_partition_t *partition)
{
    const dtn_model_t *model = dtn_model_of(partition->context);
    if (model == NULL) {
        return 0;
    }
    return (uint64_t)table_bytes(model) + model->memory_bytes[DTN_SCRATCH] + model->profile_bytes +
           model->memory_bytes[DTN_PREFETCH];
}

static dtn_reason_t check(const dtn_partition_t *partition, const dtn_npu_call_t *call)
{
    const dtn_model_t *model = dtn_model_of(partition->context);
    if (model == NULL || call->input_count != model->inputs || call->output_count != model->outputs) {
        return DTN_REASON_DELEGATE;
    }
    const dtn_bundle_t *bundle = call->executor->bundle;
    uint32_t scratch = bundle->delegate_count * DTN_CONTEXT_BYTES + table_bytes(model);
    for (uint32_t i = 0; i < model->inputs + model->outputs; i++) {
        const dtn_value_t *tensor = dtn_value(bundle, call->first + i);
        /* In the working memory only its own place is free for it: not addresses, scratch, records or weights. Without
         * a place the sum is not a multiple of 16, as offsets are. */
        if (tensor->bytes != model->words[DTN_HEADER_WORDS + i] ||
            (tensor->memory == bundle->memory_count - 1 && tensor->offset != scratch + dtn_place(model, i))) {
            return DTN_REASON_DELEGATE;
        }
    }
    return DTN_OK;
}

static NeutronError run(const dtn_partition_t *partition, const dtn_npu_call_t *call)
{
    const dtn_model_t *model = dtn_model_of(partition->context);
    if (model == NULL) {
        return dtn_error(DTN_REASON_BAD_HANDLE, 0);
    }
    uint32_t tensors = call->input_count + call->output_count;
    void **pointers = (void **)partition->working;
    uint8_t *scratch = (uint8_t *)partition->working + table_bytes(model);
    uint8_t *profile = scratch + model->memory_bytes[DTN_SCRATCH];
    for (uint32_t i = 0; i < tensors; i++) {
        dtn_tensor_t tensor;
        dtn_value_tensors(call->executor, call->first + i, 1, &tensor);
        pointers[i] = tensor.data;
    }
    pointers[tensors] = scratch;
    pointers[tensors + 1] = profile;
    NeutronDataConfig data = {
        .inputs = (const void **)(void *)pointers,
        .outputs = pointers + call->input_count,
        .scratchWeights = profile + model->profile_bytes,
    };
    return neutronRunBlocking(partition->context, &data);
}

static NeutronError unprepare(const dtn_partition_t *partition)
{
    return neutronModelUnprepare(partition->context);
}

#if DTN_PROFILING
static const uint32_t *records(const dtn_partition_t *partition, uint32_t *count)
{
    const dtn_model_t *model = dtn_model_of(partition->context);
    if (model == NULL) {
        return NULL;
    }
    const uint8_t *working = (const uint8_t *)partition->working;
    *count = model->profile_bytes / DTN_PROFILE_RECORD_BYTES;
    return (const uint32_t *)(const void *)(working + table_bytes(model) + model->memory_bytes[DTN_SCRATCH]);
}
#endif

const dtn_npu_t dtn_npu_neutron = {
    .prepare = prepare,
    .working_bytes = working_bytes,
    .check = check,
    .run = run,
    .unprepare = unprepare,
#if DTN_PROFILING
    .records = records,
#endif
};
