/* Packs what was cut from a rectangle, so fits, and the same with one block more, which does not; prints what is wrong.
 * tests/planner/test_packing_search.py builds it with the sanitizers. */
#include "packing.h"

#include <stdio.h>
#include <stdlib.h>

#define BLOCKS 40U
#define SECTIONS 24U
#define HEIGHT 64U
#define TABLE_BITS 10U

typedef struct {
    uint32_t low;
    uint32_t high;
    uint32_t first;
    uint32_t last;
} part_t;

static uint32_t seed;

static uint32_t random_below(uint32_t limit)
{
    seed = seed * 1664525U + 1013904223U;
    return (seed >> 16) % limit;
}

/* Cuts a random part in two, at a height or at a moment, where it is large enough. */
static bool cut(part_t *parts, uint32_t count)
{
    part_t *part = &parts[random_below(count)];
    parts[count] = *part;
    if (random_below(2) == 0 && part->high - part->low > 1) {
        part->high = part->low + 1U + random_below(part->high - part->low - 1U);
        parts[count].low = part->high;
        return true;
    }
    if (part->last > part->first) {
        part->last = part->first + random_below(part->last - part->first);
        parts[count].first = part->last + 1U;
        return true;
    }
    return false;
}

static dtn_packing_answer_t pack(const dtn_packing_block_t *blocks, uint32_t count, uint32_t *offsets)
{
    dtn_packing_config_t config = {blocks, count, SECTIONS, HEIGHT, TABLE_BITS};
    uint32_t order[BLOCKS + 1U];
    void *memory = calloc(1, dtn_packing_bytes(&config));
    dtn_packing_t *packing = memory == NULL ? NULL : dtn_packing_init(memory, &config);
    dtn_packing_answer_t answer = DTN_PACKING_UNDECIDED;
    /* Many short searches, each with another block in front: what is known to fail is kept from one to the next. */
    for (uint32_t run = 0; packing != NULL && run < 2000U && answer == DTN_PACKING_UNDECIDED; run++) {
        for (uint32_t i = 0; i < count; i++) {
            order[i] = (i + run) % count;
        }
        answer = dtn_packing_search(packing, order, 20000, offsets);
    }
    free(memory);
    return answer;
}

static bool is_valid(const dtn_packing_block_t *blocks, uint32_t count, const uint32_t *offsets)
{
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < i; j++) {
            bool meet = blocks[i].first <= blocks[j].last && blocks[j].first <= blocks[i].last;
            bool apart = offsets[i] + blocks[i].size <= offsets[j] || offsets[j] + blocks[j].size <= offsets[i];
            if (meet && !apart) {
                return false;
            }
        }
        if (offsets[i] + blocks[i].size > HEIGHT) {
            return false;
        }
    }
    return true;
}

static bool refuses(dtn_packing_block_t block, uint32_t count, uint32_t sections, uint32_t table_bits)
{
    uint64_t memory[1];
    dtn_packing_config_t config = {&block, count, sections, HEIGHT, table_bits};
    return dtn_packing_bytes(&config) == 0 && dtn_packing_init(memory, &config) == NULL;
}

int main(void)
{
    int wrong = 0;
    for (seed = 1; seed < 200U * 7919U; seed += 7919U) {
        uint32_t began = seed;
        part_t parts[BLOCKS] = {{0, HEIGHT, 0, SECTIONS - 1U}};
        dtn_packing_block_t blocks[BLOCKS + 1U];
        uint32_t offsets[BLOCKS + 1U];
        uint32_t count = 1;
        while (count < BLOCKS) {
            count += cut(parts, count) ? 1U : 0U;
        }
        for (uint32_t i = 0; i < count; i++) {
            dtn_packing_block_t block = {parts[i].high - parts[i].low, parts[i].first, parts[i].last};
            blocks[i] = block;
        }
        dtn_packing_answer_t answer = pack(blocks, count, offsets);
        if (answer != DTN_PACKING_FOUND || !is_valid(blocks, count, offsets)) {
            printf("seed %u: answer %d, or it overlaps\n", (unsigned)began, (int)answer);
            wrong = 1;
        }
        dtn_packing_block_t one_more = {1, random_below(SECTIONS), SECTIONS - 1U};
        blocks[count] = one_more;
        answer = pack(blocks, count + 1U, offsets);
        if (answer != DTN_PACKING_IMPOSSIBLE) {
            printf("seed %u: answer %d for too many blocks\n", (unsigned)began, (int)answer);
            wrong = 1;
        }
        seed = began;
    }
    dtn_packing_block_t good = {1, 0, 0};
    dtn_packing_block_t none = {0, 0, 0};
    dtn_packing_block_t late = {1, 0, 1};
    dtn_packing_block_t back = {1, 1, 0};
    dtn_packing_block_t large = {DTN_PACKING_MAX_UNITS + 1U, 0, 0};
    if (!refuses(good, 0, 1, 8) || !refuses(none, 1, 1, 8) || !refuses(late, 1, 1, 8) || !refuses(back, 1, 2, 8) ||
        !refuses(large, 1, 1, 8) || !refuses(good, 1, 1, 0) || !refuses(good, 1, 1, 29) ||
        !refuses(good, 1, UINT16_MAX + 1U, 8)) {
        printf("a configuration outside its ranges is taken\n");
        wrong = 1;
    }
    return wrong;
}
