/* NPUs with their own memory for a call's tensors: copies to and from it, which a port may give to a DMA, and the
 * core's data cache. */
#include "cache.h"
#include "io.h"

/* Copies tensor `index` of a call to or from its place. */
static NeutronError copy(const dtn_npu_apart_t *apart, const dtn_partition_t *partition, const dtn_npu_call_t *call,
                         uint32_t index)
{
    const dtn_tensor_t tensor = dtn_npu_tensor(call, index);
    void *place = apart->place(partition, index);
    const bool in = index < call->input_count;
    return dtn_error(dtn_copy(in ? place : tensor.data, in ? tensor.data : place, tensor.bytes, DTN_REASON_NPU_COPY),
                     index);
}

NeutronError dtn_npu_run_apart(const dtn_partition_t *partition, const dtn_npu_call_t *call)
{
    const dtn_npu_t *npu = call->executor->bundle->delegates[partition->index].npu;
    NeutronError error = ENONE;
    for (uint32_t i = 0; error == ENONE && i < call->input_count; i++) {
        error = copy(npu->apart, partition, call, i);
    }
    if (error != ENONE) {
        return error;
    }
    dtn_cache_clean_working(npu, partition);
    /* Even without a cache, copies may wait in the core's store buffer while it starts the NPU, whose registers are
     * device memory; and nothing may be read before it is done. */
    __sync_synchronize();
    error = npu->apart->run(partition);
    __sync_synchronize();
    dtn_cache_drop_working(npu, partition);
    for (uint32_t i = 0; error == ENONE && i < call->output_count; i++) {
        error = copy(npu->apart, partition, call, call->input_count + i);
    }
    return error;
}
