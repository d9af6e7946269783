/* Mends packings of random blocks; prints what is wrong: blocks at distances that they may not have, or an end that is
 * not theirs. tests/planner/test_packing_search.py builds it with the sanitizers. */
#include "mending.h"

#include <stdbool.h>
#include <stdio.h>

#define BLOCKS 30U
#define RUNS 200U
#define LOOKS 20000U

static uint32_t seed;

static uint32_t random_below(uint32_t limit)
{
    seed = seed * 1664525U + 1013904223U;
    return (seed >> 16) % limit;
}

/* Gaps of random pairs, each of which both have: all of both blocks, or some distances less at one end. */
static void draw(dtn_mending_gap_t *gaps, uint32_t *starts, const uint32_t *sizes)
{
    static dtn_mending_gap_t pairs[BLOCKS][BLOCKS];
    for (uint32_t i = 0; i < BLOCKS; i++) {
        for (uint32_t j = 0; j < i; j++) {
            bool meets = random_below(3) == 0;
            int32_t low = meets ? (int32_t)random_below(sizes[i]) - (int32_t)sizes[i] : 0;
            int32_t high = meets ? (int32_t)random_below(sizes[j]) + 1 : 0;
            pairs[i][j] = (dtn_mending_gap_t){j, low, high};
            pairs[j][i] = (dtn_mending_gap_t){i, -high, -low};
        }
    }
    starts[0] = 0;
    for (uint32_t i = 0; i < BLOCKS; i++) {
        starts[i + 1U] = starts[i];
        for (uint32_t j = 0; j < BLOCKS; j++) {
            if (j != i && pairs[i][j].low < pairs[i][j].high) {
                gaps[starts[i + 1U]++] = pairs[i][j];
            }
        }
    }
}

static bool is_valid(const dtn_mending_config_t *config, const int32_t *offsets, uint32_t end)
{
    int32_t last = 0;
    for (uint32_t i = 0; i < BLOCKS; i++) {
        last = offsets[i] + (int32_t)config->sizes[i] > last ? offsets[i] + (int32_t)config->sizes[i] : last;
        for (uint32_t k = config->starts[i]; k < config->starts[i + 1U]; k++) {
            int32_t distance = offsets[i] - offsets[config->gaps[k].other];
            if (offsets[i] < 0 || (config->gaps[k].low < distance && distance < config->gaps[k].high)) {
                return false;
            }
        }
    }
    return last == (int32_t)end;
}

int main(void)
{
    static dtn_mending_gap_t gaps[BLOCKS * BLOCKS];
    int wrong = 0;
    for (seed = 1; seed < RUNS * 7919U; seed += 7919U) {
        uint32_t began = seed;
        uint32_t sizes[BLOCKS];
        uint32_t starts[BLOCKS + 1U];
        uint32_t order[BLOCKS];
        uint32_t kept[BLOCKS];
        int32_t offsets[BLOCKS];
        int32_t best[BLOCKS];
        for (uint32_t i = 0; i < BLOCKS; i++) {
            sizes[i] = 1U + random_below(64);
        }
        draw(gaps, starts, sizes);
        dtn_mending_config_t config = {sizes, starts, gaps, BLOCKS, 64};
        uint32_t ends[2];
        for (uint32_t run = 0; run < 2U; run++) {
            for (uint32_t i = 0; i < BLOCKS; i++) {
                order[i] = i;
            }
            ends[run] = dtn_mending_run(&config, run * LOOKS, order, kept, offsets, best);
            if (!is_valid(&config, best, ends[run])) {
                printf("seed %u: blocks lie onto each other, or end elsewhere than at %u\n", (unsigned)began,
                       (unsigned)ends[run]);
                wrong = 1;
            }
        }
        if (ends[1] > ends[0]) {
            printf("seed %u: mending takes %u units, %u without\n", (unsigned)began, (unsigned)ends[1],
                   (unsigned)ends[0]);
            wrong = 1;
        }
        seed = began;
    }
    return wrong;
}
