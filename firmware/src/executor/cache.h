/**
 * @file
 * The core's data cache round the step of an NPU, which reads and writes memory beside it.
 *
 * Before a run, what the core has written must be in memory, and no line of what the NPU writes may be dirty: the cache
 * could write it back over the NPU's bytes. After it, no line may hold what was there before. There, lines are cleaned
 * before they are dropped: nothing is dirty where an NPU has written, and where the driver's kernels ran on the core,
 * as they do without an NPU, their results are.
 *
 * Of NPUs that have the tensors of a call in their working memory, only this is cleaned and dropped, between the copies
 * there and back (`dtn_npu_run_apart`).
 */
#ifndef DTN_CACHE_H
#define DTN_CACHE_H

#include "deuteron/npu.h"

#if DTN_DATA_CACHE
/** Brings the blocks to memory, which start-up code or a loader may have written. */
void dtn_cache_prepare(const dtn_partition_t *partition);

/** Brings tensors and working memory to memory. */
void dtn_cache_before(const dtn_npu_t *npu, const dtn_partition_t *partition, const dtn_npu_call_t *call);

/** Drops what the cache holds of outputs and working memory. */
void dtn_cache_after(const dtn_npu_t *npu, const dtn_partition_t *partition, const dtn_npu_call_t *call);

/** Brings the working memory to memory. */
void dtn_cache_clean_working(const dtn_npu_t *npu, const dtn_partition_t *partition);

/** Drops what the cache holds of the working memory. */
void dtn_cache_drop_working(const dtn_npu_t *npu, const dtn_partition_t *partition);
#else
static inline void dtn_cache_prepare(const dtn_partition_t *partition)
{
    (void)partition;
}
static inline void dtn_cache_before(const dtn_npu_t *npu, const dtn_partition_t *partition, const dtn_npu_call_t *call)
{
    (void)npu, (void)partition, (void)call;
}
static inline void dtn_cache_after(const dtn_npu_t *npu, const dtn_partition_t *partition, const dtn_npu_call_t *call)
{
    (void)npu, (void)partition, (void)call;
}
static inline void dtn_cache_clean_working(const dtn_npu_t *npu, const dtn_partition_t *partition)
{
    (void)npu, (void)partition;
}
static inline void dtn_cache_drop_working(const dtn_npu_t *npu, const dtn_partition_t *partition)
{
    (void)npu, (void)partition;
}
#endif

#endif /* DTN_CACHE_H */
