/*
 * Branch and bound for packing blocks with lifetimes into a given capacity (dynamic storage allocation).
 *
 * The search places blocks from the lowest offset upwards and backtracks. A decision chooses a section of time and the
 * block that is the lowest there; the last branch is that no block starts at this offset. The search prunes states
 * whose blocks cannot fit any more, states that another branch dominates with a block moved down, and states that
 * failed before, which a hash table remembers. Without a limit on its steps it ends with an answer. After a limit,
 * another call with another order of blocks starts over with the same table.
 *
 * Time is divided into sections: stretches in which the same blocks are live, numbered from 0. The unit of memory is
 * the caller's: a common divisor of all sizes makes the search faster.
 *
 * Functions are reentrant: two searches in different memory may run at once.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Largest capacity, and largest sum of all sizes. */
#define DTN_PACKING_MAX_UNITS 0x3FFFFFFFU

/* A block of `size` units, 1 or more, live from section `first` to section `last`, both included. */
typedef struct {
    uint32_t size;
    uint32_t first;
    uint32_t last;
} dtn_packing_block_t;

/* `sections` is larger than any block's `last`. The table of failed states has 2^`table_bits` entries of 16 bytes; 1 to
 * 28 bits. */
typedef struct {
    const dtn_packing_block_t *blocks;
    uint32_t count;
    uint32_t sections;
    uint32_t capacity;
    uint32_t table_bits;
} dtn_packing_config_t;

typedef enum {
    DTN_PACKING_FOUND = 0,
    DTN_PACKING_IMPOSSIBLE = 1,
    DTN_PACKING_UNDECIDED = 2,
} dtn_packing_answer_t;

typedef struct dtn_packing dtn_packing_t;

/* Returns the bytes that a search needs, 0 if the configuration is out of range or the number exceeds a size_t. Most of
 * them are used by deep searches only. Does not read `capacity`. */
size_t dtn_packing_bytes(const dtn_packing_config_t *config);

/* Starts a search in `memory`: dtn_packing_bytes() bytes, aligned to 8, all 0. Returns NULL if the configuration is out
 * of range. Keeps no pointer to the configuration or the blocks. */
dtn_packing_t *dtn_packing_init(void *memory, const dtn_packing_config_t *config);

/* Searches for at most `steps` steps. A step is a block visited by the propagation, about 40 ns, or as many comparisons
 * for the choice of a branch.
 *
 * order: the number of each block, once (not checked), in the order in which blocks are tried.
 * offsets: set to the first unit of each block if the answer is FOUND.
 *
 * IMPOSSIBLE: no packing exists. UNDECIDED: the limit or the memory for deep searches was reached first. */
dtn_packing_answer_t dtn_packing_search(dtn_packing_t *packing, const uint32_t *order, uint64_t steps,
                                        uint32_t *offsets);

/* Returns the steps of all searches so far. */
uint64_t dtn_packing_steps(const dtn_packing_t *packing);

#ifdef __cplusplus
}
#endif
