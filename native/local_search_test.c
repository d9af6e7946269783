/* Packs random blocks and prints each failure: a forbidden distance between two blocks, or a wrong size of the packing.
 * tests/planner/test_packing_search.py builds it with the sanitizers. */
#include "local_search.h"

#include <stdbool.h>
#include <stdio.h>

#define BLOCKS 30U
#define RUNS 200U
#define CHECKS 20000U

static uint32_t seed;

static uint32_t random_below(uint32_t limit)
{
    seed = seed * 1664525U + 1013904223U;
    return (seed >> 16) % limit;
}

/* Draws forbidden distances for random pairs of blocks, listed for both: full overlaps, or shorter at the low end. */
static void draw(dtn_local_search_distance_t *distances, uint32_t *starts, const uint32_t *sizes)
{
    static dtn_local_search_distance_t pairs[BLOCKS][BLOCKS];
    for (uint32_t i = 0; i < BLOCKS; i++) {
        for (uint32_t j = 0; j < i; j++) {
            bool meets = random_below(3) == 0;
            int32_t low = meets ? (int32_t)random_below(sizes[i]) - (int32_t)sizes[i] : 0;
            int32_t high = meets ? (int32_t)random_below(sizes[j]) + 1 : 0;
            pairs[i][j] = (dtn_local_search_distance_t){j, low, high};
            pairs[j][i] = (dtn_local_search_distance_t){i, -high, -low};
        }
    }
    starts[0] = 0;
    for (uint32_t i = 0; i < BLOCKS; i++) {
        starts[i + 1U] = starts[i];
        for (uint32_t j = 0; j < BLOCKS; j++) {
            if (j != i && pairs[i][j].low < pairs[i][j].high) {
                distances[starts[i + 1U]++] = pairs[i][j];
            }
        }
    }
}

static bool is_valid(const dtn_local_search_config_t *config, const int32_t *offsets, uint32_t end)
{
    int32_t last = 0;
    for (uint32_t i = 0; i < BLOCKS; i++) {
        last = offsets[i] + (int32_t)config->sizes[i] > last ? offsets[i] + (int32_t)config->sizes[i] : last;
        for (uint32_t k = config->starts[i]; k < config->starts[i + 1U]; k++) {
            int32_t distance = offsets[i] - offsets[config->distances[k].other];
            if (offsets[i] < 0 || (config->distances[k].low < distance && distance < config->distances[k].high)) {
                return false;
            }
        }
    }
    return last == (int32_t)end;
}

int main(void)
{
    static dtn_local_search_distance_t distances[BLOCKS * BLOCKS];
    int wrong = 0;
    for (seed = 1; seed < RUNS * 7919U; seed += 7919U) {
        uint32_t began = seed;
        uint32_t sizes[BLOCKS];
        uint32_t starts[BLOCKS + 1U];
        uint32_t order[BLOCKS];
        uint32_t best_order[BLOCKS];
        int32_t offsets[BLOCKS];
        int32_t best[BLOCKS];
        for (uint32_t i = 0; i < BLOCKS; i++) {
            sizes[i] = 1U + random_below(64);
        }
        draw(distances, starts, sizes);
        dtn_local_search_config_t config = {sizes, starts, distances, BLOCKS, 64};
        uint32_t ends[2];
        for (uint32_t run = 0; run < 2U; run++) {
            for (uint32_t i = 0; i < BLOCKS; i++) {
                order[i] = i;
            }
            ends[run] = dtn_local_search_run(&config, run * CHECKS, order, best_order, offsets, best);
            if (!is_valid(&config, best, ends[run])) {
                printf("seed %u: blocks overlap, or the packing does not end at %u\n", (unsigned)began,
                       (unsigned)ends[run]);
                wrong = 1;
            }
        }
        if (ends[1] > ends[0]) {
            printf("seed %u: local search takes %u units, first fit %u\n", (unsigned)began, (unsigned)ends[1],
                   (unsigned)ends[0]);
            wrong = 1;
        }
        seed = began;
    }
    return wrong;
}
