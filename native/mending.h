/*
 * Where blocks of memory go whose parts are in use at different times: greedy, in orders that are mended.
 *
 * Of two blocks it is known which distances would put parts onto each other that are in use at once. Each block in turn
 * goes to the lowest offset that those before it leave. What then ends no lower than the best packing so far comes
 * earlier in the next order, by chance how much; now and then the best order so far is taken up again, with two blocks
 * swapped.
 *
 * Memory is the caller's, and functions are reentrant. The same arguments give the same packing.
 */
#ifndef DEUTERON_NATIVE_MENDING_H
#define DEUTERON_NATIVE_MENDING_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A block may not lie more than `low` and less than `high` units above block `other`. */
typedef struct {
    uint32_t other;
    int32_t low;
    int32_t high;
} dtn_mending_gap_t;

/* `gaps` are those of block 0, of block 1, ...; those of block i are from `starts[i]` on, up to `starts[i + 1]`. Sizes
 * and numbers in gaps are units, and the sum of all sizes is less than 2^30. `count` is at least 1. No packing ends
 * below `bound`. */
typedef struct {
    const uint32_t *sizes;
    const uint32_t *starts;
    const dtn_mending_gap_t *gaps;
    uint32_t count;
    uint32_t bound;
} dtn_mending_config_t;

/* Mends for about `looks` looks at a gap, one of which takes a nanosecond or two.
 *
 * order: the number of each block, once; the one that is to be placed first in front. What is there at last is of no
 * use. kept, offsets: memory for a number of each block. best: set to the offset of each block in the smallest packing
 * that was found. Returns where that ends. */
uint32_t dtn_mending_run(const dtn_mending_config_t *config, uint64_t looks, uint32_t *order, uint32_t *kept,
                         int32_t *offsets, int32_t *best);

#ifdef __cplusplus
}
#endif

#endif
