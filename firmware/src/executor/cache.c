#include "cache.h"

#if DTN_DATA_CACHE
#include "deuteron/port.h"

static void drop(void *data, size_t bytes)
{
    dtn_port_cache_clean(data, bytes);
    dtn_port_cache_invalidate(data, bytes);
}

void dtn_cache_prepare(const dtn_partition_t *partition)
{
    for (uint32_t i = 0; i < partition->block_count; i++) {
        dtn_port_cache_clean(partition->blocks[i].data, partition->blocks[i].bytes);
    }
}

void dtn_cache_clean_working(const dtn_npu_t *npu, const dtn_partition_t *partition)
{
    dtn_port_cache_clean(partition->working, (size_t)npu->working_bytes(partition));
}

void dtn_cache_drop_working(const dtn_npu_t *npu, const dtn_partition_t *partition)
{
    drop(partition->working, (size_t)npu->working_bytes(partition));
}

void dtn_cache_before(const dtn_npu_t *npu, const dtn_partition_t *partition, const dtn_npu_call_t *call)
{
    if (npu->apart != NULL) {
        return;
    }
    for (uint32_t i = 0; i < call->input_count + call->output_count; i++) {
        dtn_tensor_t tensor = dtn_npu_tensor(call, i);
        dtn_port_cache_clean(tensor.data, tensor.bytes);
    }
    dtn_cache_clean_working(npu, partition);
}

void dtn_cache_after(const dtn_npu_t *npu, const dtn_partition_t *partition, const dtn_npu_call_t *call)
{
    if (npu->apart != NULL) {
        return;
    }
    for (uint32_t i = call->input_count; i < call->input_count + call->output_count; i++) {
        dtn_tensor_t tensor = dtn_npu_tensor(call, i);
        drop(tensor.data, tensor.bytes);
    }
    dtn_cache_drop_working(npu, partition);
}
#else
typedef int dtn_no_data_cache; /* C99 wants a file to declare something */
#endif
