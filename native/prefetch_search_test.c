/* Schedules random chunks and searches for resident ones. Prints each failure: chunks or reserved intervals that
 * overlap while both are live, a wrong number of cycles, or a search that ends in the wrong place.
 * tests/planner/test_packing_search.py builds it with the sanitizers. */
#include "prefetch_search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNKS 24U
#define CALLS 16U
#define WALLS 12U
#define SCRATCH 1024U
#define WORDS 512U
#define ROUNDS 60U
#define RUNS 200U

static uint32_t seed;

static uint32_t random_below(uint32_t limit)
{
    seed = seed * 1664525U + 1013904223U;
    return (seed >> 16) % limit;
}

/* Draws scratch for half of the configurations; reserved intervals may overlap. */
static void draw_reserved(dtn_prefetch_reserved_t *reserved, dtn_prefetch_config_t *config)
{
    uint32_t first = 0;
    config->scratch = random_below(2) != 0 ? SCRATCH : 0;
    config->reserved_count = config->scratch != 0 ? random_below(WALLS + 1U) : 0;
    for (uint32_t i = 0; i < config->reserved_count; i++) {
        uint64_t offset = 16U * random_below(SCRATCH / 16U);
        first += first + 2U < CALLS ? random_below(3) : 0;
        reserved[i] = (dtn_prefetch_reserved_t){offset, 16U * random_below((uint32_t)(SCRATCH - offset) / 16U + 1U),
                                                first, first + random_below(CALLS - first)};
    }
}

static void draw(dtn_prefetch_chunk_t *chunks, uint64_t *calls, dtn_prefetch_config_t *config)
{
    uint32_t first = 0;
    config->chunk_count = 1U + random_below(CHUNKS);
    for (uint32_t i = 0; i < config->chunk_count; i++) {
        first += first + 1U < CALLS ? random_below(2) : 0;
        uint64_t nbytes = 16U * (1U + random_below(64));
        chunks[i] = (dtn_prefetch_chunk_t){nbytes, 10U + nbytes / 4U, first, first + random_below(CALLS - first)};
        config->area += random_below(8) != 0 ? nbytes : 0;
    }
    for (uint32_t call = 0; call < CALLS; call++) {
        calls[call] = random_below(500);
    }
}

/* Returns true if a chunk is in the area, or in scratch that is not reserved from its fetch to its last call. */
static bool is_free(const dtn_prefetch_config_t *config, const dtn_prefetch_step_t *step, bool stays)
{
    const dtn_prefetch_chunk_t *chunk = &config->chunks[step->chunk];
    uint64_t end = step->offset + chunk->nbytes;
    if (end <= config->area) {
        return true;
    }
    if (stays || step->offset < config->area || end > config->area + config->scratch) {
        return false;
    }
    for (uint32_t i = 0; i < config->reserved_count; i++) {
        const dtn_prefetch_reserved_t *interval = &config->reserved[i];
        if (interval->first <= chunk->last && interval->last >= step->call && config->area + interval->offset < end &&
            step->offset < config->area + interval->offset + interval->nbytes) {
            return false;
        }
    }
    return true;
}

static bool is_sound(const dtn_prefetch_config_t *config, const uint8_t *resident, const dtn_prefetch_step_t *steps,
                     uint32_t count)
{
    const dtn_prefetch_step_t *fetch[CHUNKS] = {NULL};
    bool is_there[CHUNKS] = {false};
    for (uint32_t i = 0; i < count; i++) {
        const dtn_prefetch_chunk_t *chunk = &config->chunks[steps[i].chunk];
        if (steps[i].is_wait) {
            is_there[steps[i].chunk] = fetch[steps[i].chunk] != NULL;
            continue;
        }
        if (!is_free(config, &steps[i], resident[steps[i].chunk] != 0) || steps[i].call > chunk->first) {
            return false;
        }
        for (uint32_t other = 0; other < config->chunk_count; other++) {
            bool stays = resident[other] || config->chunks[other].last >= steps[i].call;
            if (fetch[other] != NULL && stays && fetch[other]->offset < steps[i].offset + chunk->nbytes &&
                steps[i].offset < fetch[other]->offset + config->chunks[other].nbytes) {
                return false;
            }
        }
        fetch[steps[i].chunk] = &steps[i];
    }
    for (uint32_t chunk = 0; chunk < config->chunk_count; chunk++) {
        if (!is_there[chunk]) {
            return false;
        }
    }
    return true;
}

/* Returns true if the best result is a valid schedule with the cycles that the search reports. */
static bool check(const dtn_prefetch_config_t *config, dtn_prefetch_t *search, uint32_t *scheduled)
{
    dtn_prefetch_step_t steps[2U * CHUNKS];
    uint8_t resident[CHUNKS] = {0};
    uint32_t order[CHUNKS];
    uint32_t words[WORDS];
    uint32_t count;
    for (uint32_t i = 0; i < WORDS; i++) {
        words[i] = random_below(65536) << 16 | random_below(65536);
    }
    for (uint32_t i = 0; i < config->chunk_count; i++) {
        order[i] = config->chunk_count - 1U - i;
    }
    dtn_prefetch_try(search, resident, 0);
    dtn_prefetch_fill(search, order, config->area / 2U, 0);
    dtn_prefetch_fill(search, order, config->area, 0);
    dtn_prefetch_improve(search, ROUNDS, words, WORDS, 0);
    uint64_t best = dtn_prefetch_best(search, resident);
    const dtn_prefetch_choice_t choice = {resident, NULL, NULL, NULL};
    if (best == DTN_PREFETCH_NONE) {
        return true;
    }
    (*scheduled)++;
    return dtn_prefetch_schedule(search, &choice, steps, &count) == best && is_sound(config, resident, steps, count);
}

/* Returns true if a search ends that has no chunks, or no random numbers that it accepts. */
static bool ends(void)
{
    const uint64_t calls[3] = {10, 10, 10};
    const dtn_prefetch_chunk_t chunks[3] = {{8, 5, 0, 0}, {8, 5, 1, 1}, {8, 5, 2, 2}};
    const uint32_t words[2] = {UINT32_MAX, UINT32_MAX};
    for (uint32_t count = 0; count <= 3; count += 3) {
        uint8_t resident[3] = {0};
        dtn_prefetch_config_t config = {chunks, calls, count, 3, 1, 100, 1, ROUNDS, NULL, 0, 0};
        void *memory = malloc(dtn_prefetch_bytes(&config));
        dtn_prefetch_t *search = memory == NULL ? NULL : dtn_prefetch_init(memory, &config);
        if (search == NULL) {
            return false;
        }
        dtn_prefetch_try(search, resident, 0);
        uint64_t first = dtn_prefetch_best(search, resident);
        dtn_prefetch_improve(search, ROUNDS, words, 0, 0);
        dtn_prefetch_improve(search, ROUNDS, words, 2, 0);
        uint64_t best = dtn_prefetch_best(search, resident);
        free(memory);
        if (first == DTN_PREFETCH_NONE || best > first) {
            return false;
        }
    }
    return true;
}

int main(void)
{
    uint32_t scheduled = 0;
    if (!ends()) {
        printf("a search with nothing to change is wrong\n");
        return 1;
    }
    for (seed = 0; seed < RUNS; seed++) {
        uint32_t number = seed;
        dtn_prefetch_chunk_t chunks[CHUNKS];
        uint64_t calls[CALLS];
        dtn_prefetch_reserved_t reserved[WALLS + 1U];
        dtn_prefetch_config_t config = {chunks, calls, 0, CALLS, 7, 0, 4, ROUNDS + 3U, reserved, 0, 0};
        draw(chunks, calls, &config);
        draw_reserved(reserved, &config);
        void *memory = malloc(dtn_prefetch_bytes(&config));
        dtn_prefetch_t *search = memory == NULL ? NULL : dtn_prefetch_init(memory, &config);
        if (search == NULL || !check(&config, search, &scheduled)) {
            printf("run %u is wrong\n", number);
            return 1;
        }
        chunks[0].last = CALLS;
        if (dtn_prefetch_bytes(&config) != 0 || dtn_prefetch_init(memory, &config) != NULL) {
            printf("run %u: a chunk that no call reads is accepted\n", number);
            return 1;
        }
        chunks[0].last = CALLS - 1U;
        reserved[config.reserved_count++] = (dtn_prefetch_reserved_t){config.scratch, 16, CALLS - 1U, CALLS - 1U};
        if (dtn_prefetch_bytes(&config) != 0 || dtn_prefetch_init(memory, &config) != NULL) {
            printf("run %u: a reserved interval outside scratch is accepted\n", number);
            return 1;
        }
        free(memory);
        seed = number;
    }
    if (scheduled < RUNS / 2U) {
        printf("only %u runs have a schedule\n", scheduled);
        return 1;
    }
    return 0;
}
