#include "local_search.h"

#include <stdbool.h>
#include <string.h>

/* Share of the rounds that restart from the best order. */
#define RESTARTS 1U
#define ROUNDS 10U

/* Offset of a block that is not placed. */
#define ABSENT (-1)

typedef struct {
    const dtn_local_search_config_t *config;
    uint64_t seed;
    uint64_t checks;
    uint32_t *order;
    int32_t *offsets;
} run_t;

/* Returns a random number below `limit`; Marsaglia's xorshift. */
static uint32_t random_below(run_t *run, uint32_t limit)
{
    run->seed ^= run->seed << 13;
    run->seed ^= run->seed >> 7;
    run->seed ^= run->seed << 17;
    return (uint32_t)((run->seed >> 11) % limit);
}

static int32_t end_of(const run_t *run, uint32_t block)
{
    return run->offsets[block] + (int32_t)run->config->sizes[block];
}

/* Returns the lowest offset of a block at no forbidden distance from a placed one. */
static int32_t first_fit(run_t *run, uint32_t block)
{
    const dtn_local_search_config_t *config = run->config;
    int32_t offset = 0;
    for (bool moved = true; moved;) {
        moved = false;
        run->checks += 1U + config->starts[block + 1U] - config->starts[block];
        for (uint32_t i = config->starts[block]; i < config->starts[block + 1U]; i++) {
            const dtn_local_search_distance_t *distance = &config->distances[i];
            int32_t other = run->offsets[distance->other];
            if (other != ABSENT && other + distance->low < offset && offset < other + distance->high) {
                offset = other + distance->high;
                moved = true;
            }
        }
    }
    return offset;
}

/* Places all blocks in order; returns the size of the packing. */
static int32_t place_all(run_t *run)
{
    int32_t end = 0;
    for (uint32_t i = 0; i < run->config->count; i++) {
        run->offsets[i] = ABSENT;
    }
    for (uint32_t i = 0; i < run->config->count; i++) {
        uint32_t block = run->order[i];
        run->offsets[block] = first_fit(run, block);
        end = end_of(run, block) > end ? end_of(run, block) : end;
    }
    return end;
}

/* Moves blocks that end at `best_end` or above forward, or restarts from the best order with two blocks swapped. */
static void next_order(run_t *run, const uint32_t *best_order, int32_t best_end)
{
    uint32_t *order = run->order;
    uint32_t count = run->config->count;
    if (random_below(run, ROUNDS) < RESTARTS) {
        uint32_t one = random_below(run, count);
        uint32_t other = random_below(run, count);
        memcpy(order, best_order, count * sizeof *order);
        order[one] = best_order[other];
        order[other] = best_order[one];
        return;
    }
    for (uint32_t i = 1; i < count; i++) {
        uint32_t block = order[i];
        if (end_of(run, block) >= best_end) {
            uint32_t to = random_below(run, i + 1U);
            memmove(&order[to + 1U], &order[to], (i - to) * sizeof *order);
            order[to] = block;
        }
    }
}

uint32_t dtn_local_search_run(const dtn_local_search_config_t *config, uint64_t checks, uint32_t *order,
                              uint32_t *best_order, int32_t *offsets, int32_t *best)
{
    run_t run = {config, UINT64_C(88172645463325252), 0, order, offsets};
    int32_t best_end = INT32_MAX;
    while (true) {
        int32_t end = place_all(&run);
        if (end < best_end) {
            best_end = end;
            memcpy(best, offsets, config->count * sizeof *best);
            memcpy(best_order, order, config->count * sizeof *best_order);
        }
        if (best_end <= (int32_t)config->bound || run.checks >= checks) {
            return (uint32_t)best_end;
        }
        next_order(&run, best_order, best_end);
    }
}
