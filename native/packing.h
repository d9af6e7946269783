/*
 * Whether blocks of memory, each in use for some time, can share a given number of bytes, and where each then lies.
 *
 * A search in one thread over memory that the caller owns. It places blocks from below and undoes what leads nowhere:
 * at each step it takes one moment, and tries each block that could be the lowest there, and at last that none starts
 * there. What it cuts off is what could never fit, what another branch has with a block moved down, and what it has
 * seen fail before. Left alone it ends with an answer; a limit on its steps ends it sooner, and another call, with
 * another order of blocks, begins again with all that is known to fail.
 *
 * Time is given as sections: stretches in which the same blocks are in use, numbered from 0. Units of memory are the
 * caller's, so that a common divisor of all sizes (their alignment) need not be searched.
 *
 * Functions are reentrant: two searches in different memory may run at once.
 */
#ifndef DEUTERON_NATIVE_PACKING_H
#define DEUTERON_NATIVE_PACKING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Largest capacity, and largest sum of all sizes. */
#define DTN_PACKING_MAX_UNITS 0x3FFFFFFFU

/* A block of `size` units, 1 or more, in use from section `first` to section `last`, both included. */
typedef struct {
    uint32_t size;
    uint32_t first;
    uint32_t last;
} dtn_packing_block_t;

/* `sections` is more than any block's `last`. 2^`table_bits` states that failed are remembered at 16 bytes each; 1 to
 * 28. */
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

/* Bytes that a search needs, 0 if the configuration is outside its ranges or a size_t holds no such number. Most of
 * them are touched by deep searches only. Does not read `capacity`. */
size_t dtn_packing_bytes(const dtn_packing_config_t *config);

/* A search at the start of `memory`: dtn_packing_bytes() bytes, aligned to 8, all 0. NULL if the configuration is
 * outside its ranges. Keeps no pointer to the configuration or the blocks; `memory` is the caller's again when it
 * calls no more. */
dtn_packing_t *dtn_packing_init(void *memory, const dtn_packing_config_t *config);

/* Searches for at most `steps` steps, a step being a block looked at by the propagation, so about 40 ns, or as
 * many comparisons for the next branch as take so long.
 *
 * order: the number of each block, once, which is not checked; the one that is to be tried first in front.
 * offsets: set to the first unit of each block if the answer is FOUND.
 *
 * IMPOSSIBLE says that no packing exists; UNDECIDED that the limit, or the memory for deep searches, came first. */
dtn_packing_answer_t dtn_packing_search(dtn_packing_t *packing, const uint32_t *order, uint64_t steps,
                                        uint32_t *offsets);

/* Steps of all searches so far. */
uint64_t dtn_packing_steps(const dtn_packing_t *packing);

#ifdef __cplusplus
}
#endif

#endif
