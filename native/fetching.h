/*
 * Which chunks of weights stay in SRAM from run to run, and when the others are fetched while kernels compute.
 *
 * One schedule follows a run call by call. Chunks are fetched in a given order, each as early as room and channels
 * allow. Room is handed out first fit: in scratch, where no wall is from the call before which the fetch is started to
 * the last call that reads the chunk, else in the area, behind what stays. The search schedules many choices of what
 * stays, gives up each as soon as it cannot be as fast as the best so far, and keeps the last of the fastest.
 *
 * Addresses are one line: the area, and scratch from the area's end on. No chunk lies in both.
 *
 * Memory is the caller's, and functions are reentrant. Times are cycles; all of a run together, every transfer and
 * every setup included, are less than 2^63. Sums of sizes are, too.
 */
#ifndef DEUTERON_NATIVE_FETCHING_H
#define DEUTERON_NATIVE_FETCHING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DTN_FETCHING_MAX_CHANNELS 32U

/* No schedule, no offset. */
#define DTN_FETCHING_NONE UINT64_MAX

/* Read by calls `first` to `last`; `transfer` cycles on the flash. */
typedef struct {
    uint64_t nbytes;
    uint64_t transfer;
    uint32_t first;
    uint32_t last;
} dtn_fetching_chunk_t;

/* Bytes that calls `first` to `last` use for something else; `offset` is that in scratch. */
typedef struct {
    uint64_t offset;
    uint64_t nbytes;
    uint32_t first;
    uint32_t last;
} dtn_fetching_wall_t;

/* At most 65,535 chunks and 2^31 - 1 walls, both in the order of their first calls, and 2^31 - 1 calls. `calls` are the
 * cycles of each call, `setup` those of the CPU per fetch; `tries` is the most choices that a search looks at, up to
 * 65,535. `scratch` are the bytes of scratch, 0 where nothing is fetched there. All is read until the search has
 * ended. */
typedef struct {
    const dtn_fetching_chunk_t *chunks;
    const uint64_t *calls;
    uint32_t chunk_count;
    uint32_t call_count;
    uint64_t setup;
    uint64_t area;
    uint32_t channels;
    uint32_t tries;
    const dtn_fetching_wall_t *walls;
    uint64_t scratch;
    uint32_t wall_count;
} dtn_fetching_config_t;

/* `resident` has a byte per chunk, not 0 where it stays. `order` is that of the fetches, in which
 * each chunk stands once, NULL for that of the chunks.
 * With `spots` each other chunk is fetched right before that call or later, to `offsets` where that is not
 * DTN_FETCHING_NONE; both are NULL otherwise. */
typedef struct {
    const uint8_t *resident;
    const uint32_t *order;
    const uint32_t *spots;
    const uint64_t *offsets;
} dtn_fetching_choice_t;

/* Before call `call`, the fetch of `chunk` to `offset` is started on `channel`, or waited for. */
typedef struct {
    uint64_t offset;
    uint32_t call;
    uint32_t chunk;
    uint32_t channel;
    uint32_t is_wait;
} dtn_fetching_step_t;

typedef struct dtn_fetching dtn_fetching_t;

/* Bytes that a search needs; 0 if the configuration is outside its ranges. */
size_t dtn_fetching_bytes(const dtn_fetching_config_t *config);

/* A search in `memory`: dtn_fetching_bytes() bytes, aligned to 8. NULL if the configuration is outside its ranges. */
dtn_fetching_t *dtn_fetching_init(void *memory, const dtn_fetching_config_t *config);

/* The cycles of a run with this choice, DTN_FETCHING_NONE where some chunk finds no room. `steps`, room for two per
 * chunk, are what is started and waited for; they may be NULL. */
uint64_t dtn_fetching_schedule(dtn_fetching_t *search, const dtn_fetching_choice_t *choice, dtn_fetching_step_t *steps,
                               uint32_t *step_count);

/* Looks at a choice of what stays, unless it has been looked at or nothing is faster than `bound`. */
void dtn_fetching_try(dtn_fetching_t *search, const uint8_t *resident, uint64_t bound);

/* The same for as many chunks as go into `limit` bytes, taken in this order. */
void dtn_fetching_fill(dtn_fetching_t *search, const uint32_t *order, uint64_t limit, uint64_t bound);

/* Changes the best `rounds` times at random: a chunk more or less, and others out where there is no room. `words` are
 * random, and begin again when all have been used. */
void dtn_fetching_improve(dtn_fetching_t *search, uint32_t rounds, const uint32_t *words, uint32_t word_count,
                          uint64_t bound);

/* What is best so far: its cycles, DTN_FETCHING_NONE before there is any, and what stays. */
uint64_t dtn_fetching_best(const dtn_fetching_t *search, uint8_t *resident);

/* Takes a run in which nothing stays, found elsewhere, for the best; it must be faster. */
void dtn_fetching_offer(dtn_fetching_t *search, uint64_t cycles);

#ifdef __cplusplus
}
#endif

#endif
