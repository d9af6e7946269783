/*
 * Local search for packing blocks whose parts have separate lifetimes.
 *
 * The caller gives the forbidden distances between offsets of two blocks. First fit places the blocks in an order. In
 * the next order, each block that ended at or above the size of the best packing moves forward to a random position.
 * With a probability of RESTARTS / ROUNDS the next order is the best one so far with two blocks swapped.
 *
 * Memory is the caller's, and functions are reentrant. The same arguments give the same packing.
 */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The offset of a block minus that of block `other` must not be between `low` and `high`, both excluded; in units. */
typedef struct {
    uint32_t other;
    int32_t low;
    int32_t high;
} dtn_local_search_distance_t;

/* `distances` lists those of block 0, then those of block 1, ...; those of block i are entries `starts[i]` to
 * `starts[i + 1]` - 1. The sum of all sizes is less than 2^30 units. `count` is at least 1. `bound` is a lower bound of
 * the size of a packing. */
typedef struct {
    const uint32_t *sizes;
    const uint32_t *starts;
    const dtn_local_search_distance_t *distances;
    uint32_t count;
    uint32_t bound;
} dtn_local_search_config_t;

/* Searches for about `checks` comparisons with a forbidden distance, each of which takes one or two nanoseconds.
 *
 * order: the number of each block, once, in the order of the first packing; overwritten. best_order, offsets: scratch
 * memory, one number per block. best: set to the offset of each block in the smallest packing that was found. Returns
 * the size of that packing. */
uint32_t dtn_local_search_run(const dtn_local_search_config_t *config, uint64_t checks, uint32_t *order,
                              uint32_t *best_order, int32_t *offsets, int32_t *best);

#ifdef __cplusplus
}
#endif
