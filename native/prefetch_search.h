/*
 * Prefetch schedules of weights, and a search for the chunks of weights that stay resident in SRAM.
 *
 * A schedule simulates a run call by call. Chunks are fetched in a given order, each as early as memory and channels
 * allow. First fit places a chunk in scratch, in bytes that are not reserved from the start of its fetch to the last
 * call that reads it; otherwise in the area, after the resident chunks. The search schedules many sets of resident
 * chunks. It abandons a schedule as soon as it cannot be as fast as the best one, and keeps the last of the fastest.
 *
 * The area and scratch share one address space: scratch starts where the area ends. No chunk is in both.
 *
 * Memory is the caller's, and functions are reentrant. Times are cycles. The cycles of a run with all transfers and
 * setups must be less than 2^63, as must sums of sizes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DTN_PREFETCH_MAX_CHANNELS 32U

/* No schedule, no offset. */
#define DTN_PREFETCH_NONE UINT64_MAX

/* Weights that calls `first` to `last` read; `transfer` is the cycles of the flash. */
typedef struct {
    uint64_t nbytes;
    uint64_t transfer;
    uint32_t first;
    uint32_t last;
} dtn_prefetch_chunk_t;

/* Bytes of scratch that hold intermediate results from call `first` to call `last`. */
typedef struct {
    uint64_t offset;
    uint64_t nbytes;
    uint32_t first;
    uint32_t last;
} dtn_prefetch_reserved_t;

/* At most 65,535 chunks and 2^31 - 1 reserved intervals, both in the order of their first calls, and 2^31 - 1 calls.
 *
 * calls: cycles of each call. setup: cycles of the CPU per fetch. tries: largest number of choices that a search
 * schedules, at most 65,535. scratch: bytes of scratch, 0 if nothing is fetched there. The pointers must stay valid
 * until the search has ended. */
typedef struct {
    const dtn_prefetch_chunk_t *chunks;
    const uint64_t *calls;
    uint32_t chunk_count;
    uint32_t call_count;
    uint64_t setup;
    uint64_t area;
    uint32_t channels;
    uint32_t tries;
    const dtn_prefetch_reserved_t *reserved;
    uint64_t scratch;
    uint32_t reserved_count;
} dtn_prefetch_config_t;

/* resident: one byte per chunk, not 0 if it stays in SRAM. order: each chunk once, in the order of the fetches; NULL
 * for the order of the chunks. spots: the first call before which each other chunk may be fetched, or NULL. offsets:
 * where each of these goes, DTN_PREFETCH_NONE for first fit; NULL if spots is. */
typedef struct {
    const uint8_t *resident;
    const uint32_t *order;
    const uint32_t *spots;
    const uint64_t *offsets;
} dtn_prefetch_choice_t;

/* Start the fetch of `chunk` to `offset` on `channel` before call `call`, or wait for it there. */
typedef struct {
    uint64_t offset;
    uint32_t call;
    uint32_t chunk;
    uint32_t channel;
    uint32_t is_wait;
} dtn_prefetch_step_t;

typedef struct dtn_prefetch dtn_prefetch_t;

/* Returns the bytes that a search needs; 0 if the configuration is out of range. */
size_t dtn_prefetch_bytes(const dtn_prefetch_config_t *config);

/* Starts a search in `memory`: dtn_prefetch_bytes() bytes, aligned to 8. Returns NULL if the configuration is out of
 * range. */
dtn_prefetch_t *dtn_prefetch_init(void *memory, const dtn_prefetch_config_t *config);

/* Returns the cycles of a run with this choice, DTN_PREFETCH_NONE if some chunk does not fit. Sets `steps`, at most two
 * per chunk, unless it is NULL. */
uint64_t dtn_prefetch_schedule(dtn_prefetch_t *search, const dtn_prefetch_choice_t *choice, dtn_prefetch_step_t *steps,
                               uint32_t *step_count);

/* Schedules a set of resident chunks, unless it was scheduled before or the best has reached `bound`. */
void dtn_prefetch_try(dtn_prefetch_t *search, const uint8_t *resident, uint64_t bound);

/* The same for the chunks that fit into `limit` bytes, added in this order. */
void dtn_prefetch_fill(dtn_prefetch_t *search, const uint32_t *order, uint64_t limit, uint64_t bound);

/* Changes the best set at random, `rounds` times: adds or removes a chunk, and removes others that no longer fit.
 * `words` are random numbers, reused from the start when all have been used. */
void dtn_prefetch_improve(dtn_prefetch_t *search, uint32_t rounds, const uint32_t *words, uint32_t word_count,
                          uint64_t bound);

/* Returns the cycles of the best schedule so far, DTN_PREFETCH_NONE if there is none; sets its resident chunks. */
uint64_t dtn_prefetch_best(const dtn_prefetch_t *search, uint8_t *resident);

/* Sets the best schedule to a faster one without resident chunks, which the caller has found. */
void dtn_prefetch_offer(dtn_prefetch_t *search, uint64_t cycles);

#ifdef __cplusplus
}
#endif
