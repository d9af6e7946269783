/**
 * @file
 * Maintenance of the core's data cache around an NPU's step, as the NPU accesses memory directly.
 *
 * Before a run, everything the core has written must be in memory, and no line that the NPU writes may be dirty: the
 * cache could write it back over the NPU's results. After it, the cache must not hold old lines. They are cleaned
 * before they are invalidated: an NPU leaves no dirty lines, but the driver's kernels on the core, which replace an
 * NPU, do.
 *
 * For NPUs with tensors of a call in their working memory, only that memory is cleaned and invalidated, between the
 * copies to and from it (`dtn_npu_run_apart`).
 */
#ifndef DTN_CACHE_H
#define DTN_CACHE_H

#include "deuteron/npu.h"

#if DTN_DATA_CACHE
/** Cleans the blocks, which start-up code or a loader may have written. */
void dtn_cache_prepare(const dtn_partition_t *partition);

/** Cleans tensors and working memory. */
void dtn_cache_before(const dtn_npu_t *npu, const dtn_partition_t *partition, const dtn_npu_call_t *call);

/** Invalidates outputs and working memory. */
void dtn_cache_after(const dtn_npu_t *npu, const dtn_partition_t *partition, const dtn_npu_call_t *call);

/** Cleans the working memory. */
void dtn_cache_clean_working(const dtn_npu_t *npu, const dtn_partition_t *partition);

/** Invalidates the working memory. */
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
