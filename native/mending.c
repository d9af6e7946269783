#include "mending.h"

#include <stdbool.h>
#include <string.h>

/* In how many rounds of so many the best order so far is taken up again. */
#define RETURNS 1U
#define ROUNDS 10U

/* Offset of a block that has none yet. */
#define ABSENT (-1)

typedef struct {
    const dtn_mending_config_t *config;
    uint64_t seed;
    uint64_t looks;
    uint32_t *order;
    int32_t *offsets;
} run_t;

/* A number below `limit`, by xorshift. */
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

/* The lowest offset of a block that those before it leave. */
static int32_t lowest(run_t *run, uint32_t block)
{
    const dtn_mending_config_t *config = run->config;
    int32_t offset = 0;
    for (bool moved = true; moved;) {
        moved = false;
        run->looks += 1U + config->starts[block + 1U] - config->starts[block];
        for (uint32_t i = config->starts[block]; i < config->starts[block + 1U]; i++) {
            const dtn_mending_gap_t *gap = &config->gaps[i];
            int32_t other = run->offsets[gap->other];
            if (other != ABSENT && other + gap->low < offset && offset < other + gap->high) {
                offset = other + gap->high;
                moved = true;
            }
        }
    }
    return offset;
}

/* Places all blocks in order; returns where the last ends. */
static int32_t place(run_t *run)
{
    int32_t end = 0;
    for (uint32_t i = 0; i < run->config->count; i++) {
        run->offsets[i] = ABSENT;
    }
    for (uint32_t i = 0; i < run->config->count; i++) {
        uint32_t block = run->order[i];
        run->offsets[block] = lowest(run, block);
        end = end_of(run, block) > end ? end_of(run, block) : end;
    }
    return end;
}

/* Moves blocks that end at `least` or above earlier, or takes up what is kept. */
static void mend(run_t *run, const uint32_t *kept, int32_t least)
{
    uint32_t *order = run->order;
    uint32_t count = run->config->count;
    if (random_below(run, ROUNDS) < RETURNS) {
        uint32_t one = random_below(run, count);
        uint32_t other = random_below(run, count);
        memcpy(order, kept, count * sizeof *order);
        order[one] = kept[other];
        order[other] = kept[one];
        return;
    }
    for (uint32_t i = 1; i < count; i++) {
        uint32_t block = order[i];
        if (end_of(run, block) >= least) {
            uint32_t to = random_below(run, i + 1U);
            memmove(&order[to + 1U], &order[to], (i - to) * sizeof *order);
            order[to] = block;
        }
    }
}

uint32_t dtn_mending_run(const dtn_mending_config_t *config, uint64_t looks, uint32_t *order, uint32_t *kept,
                         int32_t *offsets, int32_t *best)
{
    run_t run = {config, UINT64_C(88172645463325252), 0, order, offsets};
    int32_t least = INT32_MAX;
    while (true) {
        int32_t end = place(&run);
        if (end < least) {
            least = end;
            memcpy(best, offsets, config->count * sizeof *best);
            memcpy(kept, order, config->count * sizeof *kept);
        }
        if (least <= (int32_t)config->bound || run.looks >= looks) {
            return (uint32_t)least;
        }
        mend(&run, kept, least);
    }
}
