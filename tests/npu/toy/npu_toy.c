/* The toy family in firmware. */
#include <string.h>

#include "deuteron/npu.h"

static uint32_t count_of(const dtn_partition_t *partition)
{
    uint32_t count;
    memcpy(&count, (const uint8_t *)partition->blocks[0].data + 4, sizeof(count));
    return count;
}

static NeutronError prepare(const dtn_partition_t *partition)
{
    const dtn_constant_t *block = partition->blocks;
    if (partition->block_count != 1 || block->bytes != 16 || memcmp(block->data, "TOY1", 4) != 0) {
        return dtn_error(DTN_REASON_DELEGATE_BLOCK, partition->index);
    }
    return ENONE;
}

static uint64_t working_bytes(const dtn_partition_t *partition)
{
    (void)partition;
    return 0;
}

static dtn_reason_t check(const dtn_partition_t *partition, const dtn_npu_call_t *call)
{
    const uint32_t count = count_of(partition);
    const bool fits = call->input_count == 1 && call->output_count == 1 && dtn_npu_tensor(call, 0).bytes == count &&
                      dtn_npu_tensor(call, 1).bytes == count;
    return fits ? DTN_OK : DTN_REASON_DELEGATE;
}

static NeutronError run(const dtn_partition_t *partition, const dtn_npu_call_t *call)
{
    const int8_t *from = dtn_npu_tensor(call, 0).data;
    int8_t *to = dtn_npu_tensor(call, 1).data;
    for (uint32_t i = 0; i < count_of(partition); i++) {
        to[i] = (int8_t)-from[i];
    }
    return ENONE;
}

static NeutronError unprepare(const dtn_partition_t *partition)
{
    (void)partition;
    return ENONE;
}

const dtn_npu_t npu_toy = {
    .prepare = prepare,
    .working_bytes = working_bytes,
    .check = check,
    .run = run,
    .unprepare = unprepare,
};
