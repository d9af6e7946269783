/* Schedules random chunks and searches for what stays; prints what is wrong: chunks that overlap while both are needed,
 * or meet walls, are not there when they are needed, or times that the search reports and no schedule has.
 * tests/planner/test_packing_search.py builds it with the sanitizers. */
#include "fetching.h"

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

/* Half of all configurations have scratch, in which walls may overlap. */
static void draw_walls(dtn_fetching_wall_t *walls, dtn_fetching_config_t *config)
{
    uint32_t first = 0;
    config->scratch = random_below(2) != 0 ? SCRATCH : 0;
    config->wall_count = config->scratch != 0 ? random_below(WALLS + 1U) : 0;
    for (uint32_t i = 0; i < config->wall_count; i++) {
        uint64_t offset = 16U * random_below(SCRATCH / 16U);
        first += first + 2U < CALLS ? random_below(3) : 0;
        walls[i] = (dtn_fetching_wall_t){offset, 16U * random_below((uint32_t)(SCRATCH - offset) / 16U + 1U), first,
                                         first + random_below(CALLS - first)};
    }
}

static void draw(dtn_fetching_chunk_t *chunks, uint64_t *calls, dtn_fetching_config_t *config)
{
    uint32_t first = 0;
    config->chunk_count = 1U + random_below(CHUNKS);
    for (uint32_t i = 0; i < config->chunk_count; i++) {
        first += first + 1U < CALLS ? random_below(2) : 0;
        uint64_t nbytes = 16U * (1U + random_below(64));
        chunks[i] = (dtn_fetching_chunk_t){nbytes, 10U + nbytes / 4U, first, first + random_below(CALLS - first)};
        config->area += random_below(8) != 0 ? nbytes : 0;
    }
    for (uint32_t call = 0; call < CALLS; call++) {
        calls[call] = random_below(500);
    }
}

/* Whether a chunk lies in the area, or in scratch where no wall is from its fetch to the last call that reads it. */
static bool is_free(const dtn_fetching_config_t *config, const dtn_fetching_step_t *step, bool stays)
{
    const dtn_fetching_chunk_t *chunk = &config->chunks[step->chunk];
    uint64_t end = step->offset + chunk->nbytes;
    if (end <= config->area) {
        return true;
    }
    if (stays || step->offset < config->area || end > config->area + config->scratch) {
        return false;
    }
    for (uint32_t i = 0; i < config->wall_count; i++) {
        const dtn_fetching_wall_t *wall = &config->walls[i];
        if (wall->first <= chunk->last && wall->last >= step->call && config->area + wall->offset < end &&
            step->offset < config->area + wall->offset + wall->nbytes) {
            return false;
        }
    }
    return true;
}

static bool is_sound(const dtn_fetching_config_t *config, const uint8_t *resident, const dtn_fetching_step_t *steps,
                     uint32_t count)
{
    const dtn_fetching_step_t *fetch[CHUNKS] = {NULL};
    bool is_there[CHUNKS] = {false};
    for (uint32_t i = 0; i < count; i++) {
        const dtn_fetching_chunk_t *chunk = &config->chunks[steps[i].chunk];
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

/* Whether the best that is found is a sound schedule of the cycles that are told of it. */
static bool check(const dtn_fetching_config_t *config, dtn_fetching_t *search, uint32_t *scheduled)
{
    dtn_fetching_step_t steps[2U * CHUNKS];
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
    dtn_fetching_try(search, resident, 0);
    dtn_fetching_fill(search, order, config->area / 2U, 0);
    dtn_fetching_fill(search, order, config->area, 0);
    dtn_fetching_improve(search, ROUNDS, words, WORDS, 0);
    uint64_t best = dtn_fetching_best(search, resident);
    const dtn_fetching_choice_t choice = {resident, NULL, NULL, NULL};
    if (best == DTN_FETCHING_NONE) {
        return true;
    }
    (*scheduled)++;
    return dtn_fetching_schedule(search, &choice, steps, &count) == best && is_sound(config, resident, steps, count);
}

/* Whether a search ends that has nothing to change, or no words that it could use. */
static bool ends(void)
{
    const uint64_t calls[3] = {10, 10, 10};
    const dtn_fetching_chunk_t chunks[3] = {{8, 5, 0, 0}, {8, 5, 1, 1}, {8, 5, 2, 2}};
    const uint32_t words[2] = {UINT32_MAX, UINT32_MAX};
    for (uint32_t count = 0; count <= 3; count += 3) {
        uint8_t resident[3] = {0};
        dtn_fetching_config_t config = {chunks, calls, count, 3, 1, 100, 1, ROUNDS, NULL, 0, 0};
        void *memory = malloc(dtn_fetching_bytes(&config));
        dtn_fetching_t *search = memory == NULL ? NULL : dtn_fetching_init(memory, &config);
        if (search == NULL) {
            return false;
        }
        dtn_fetching_try(search, resident, 0);
        uint64_t first = dtn_fetching_best(search, resident);
        dtn_fetching_improve(search, ROUNDS, words, 0, 0);
        dtn_fetching_improve(search, ROUNDS, words, 2, 0);
        uint64_t best = dtn_fetching_best(search, resident);
        free(memory);
        if (first == DTN_FETCHING_NONE || best > first) {
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
        dtn_fetching_chunk_t chunks[CHUNKS];
        uint64_t calls[CALLS];
        dtn_fetching_wall_t walls[WALLS + 1U];
        dtn_fetching_config_t config = {chunks, calls, 0, CALLS, 7, 0, 4, ROUNDS + 3U, walls, 0, 0};
        draw(chunks, calls, &config);
        draw_walls(walls, &config);
        void *memory = malloc(dtn_fetching_bytes(&config));
        dtn_fetching_t *search = memory == NULL ? NULL : dtn_fetching_init(memory, &config);
        if (search == NULL || !check(&config, search, &scheduled)) {
            printf("run %u is wrong\n", number);
            return 1;
        }
        chunks[0].last = CALLS;
        if (dtn_fetching_bytes(&config) != 0 || dtn_fetching_init(memory, &config) != NULL) {
            printf("run %u: a chunk that no call reads is taken\n", number);
            return 1;
        }
        chunks[0].last = CALLS - 1U;
        walls[config.wall_count++] = (dtn_fetching_wall_t){config.scratch, 16, CALLS - 1U, CALLS - 1U};
        if (dtn_fetching_bytes(&config) != 0 || dtn_fetching_init(memory, &config) != NULL) {
            printf("run %u: a wall that leaves scratch is taken\n", number);
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
