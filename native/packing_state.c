/* Propagation of the lowest possible offset of each block. */
#include "packing_state.h"

dtn_state_t dtn_state_at(const dtn_packing_t *packing, uint32_t depth)
{
    size_t words = (size_t)packing->count + 3U * (size_t)packing->sections;
    uint32_t *earliest = packing->states + depth * words;
    uint32_t *rest = earliest + packing->count;
    dtn_state_t state = {earliest, rest, rest + packing->sections, rest + 2U * (size_t)packing->sections};
    return state;
}

void dtn_state_queue(dtn_packing_t *packing, uint32_t section)
{
    if (!packing->is_queued[section]) {
        packing->is_queued[section] = 1;
        packing->queue[packing->queued++] = section;
    }
}

void dtn_state_raise(dtn_packing_t *packing, const dtn_state_t *state, uint32_t block, uint32_t offset)
{
    const dtn_packing_block_t *b = &packing->blocks[block];
    uint32_t before = state->earliest[block];
    if (offset <= before) {
        return;
    }
    state->earliest[block] = offset;
    for (uint32_t s = b->first; s <= b->last; s++) {
        bool was_least = before == state->floor[s] || before + b->size == state->end[s];
        if (was_least || offset + state->rest[s] > packing->capacity) {
            dtn_state_queue(packing, s);
        }
    }
}

void dtn_state_place(dtn_packing_t *packing, const dtn_state_t *state, uint32_t block, uint32_t offset)
{
    const dtn_packing_block_t *b = &packing->blocks[block];
    state->earliest[block] = DTN_PLACED;
    packing->offsets[block] = offset;
    for (uint32_t s = b->first; s <= b->last; s++) {
        state->rest[s] -= b->size;
        dtn_state_queue(packing, s);
    }
    for (uint32_t s = b->first; s <= b->last; s++) {
        for (uint32_t i = packing->members_start[s]; i < packing->members_start[s + 1]; i++) {
            if (state->earliest[packing->members[i]] != DTN_PLACED) {
                dtn_state_raise(packing, state, packing->members[i], offset + b->size);
            }
        }
    }
}

/* Sorts the first `count` of packing->sorted by their lowest possible ends, packing->ends, and accumulates their sizes
 * in packing->below. Insertion sort: they are few. */
static void sort_by_end(const dtn_packing_t *packing, const dtn_state_t *state, uint32_t count)
{
    uint32_t *sorted = packing->sorted;
    uint32_t *ends = packing->ends;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t block = sorted[i];
        uint32_t end = state->earliest[block] + packing->blocks[block].size;
        uint32_t j = i;
        for (; j > 0 && ends[j - 1] > end; j--) {
            sorted[j] = sorted[j - 1];
            ends[j] = ends[j - 1];
        }
        sorted[j] = block;
        ends[j] = end;
    }
    packing->below[0] = 0;
    for (uint32_t i = 0; i < count; i++) {
        packing->below[i + 1] = packing->below[i] + packing->blocks[sorted[i]].size;
    }
}

/* Returns how many of the first `count` packing->ends are at most `offset`; binary search. */
static uint32_t ends_until(const dtn_packing_t *packing, uint32_t count, uint32_t offset)
{
    uint32_t low = 0;
    for (uint32_t high = count; low < high;) {
        uint32_t middle = (low + high) / 2U;
        if (packing->ends[middle] <= offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Returns the lowest offset of `block`, from `offset` on, that leaves enough capacity above it for all blocks that do
 * not fit below it; DTN_NONE if there is none. Up to `limit` that holds for every offset. */
static uint32_t lowest_offset(const dtn_packing_t *packing, uint32_t block, uint32_t offset, uint32_t count,
                              uint32_t limit)
{
    uint32_t size = packing->blocks[block].size;
    uint32_t end = offset + size;
    uint32_t at = ends_until(packing, count, offset);
    while (packing->below[at] - (end <= offset ? size : 0) + limit < offset) {
        if (at < count && packing->sorted[at] == block) {
            at++;
        }
        if (at == count) {
            return DTN_NONE;
        }
        offset = packing->ends[at];
        while (at < count && packing->ends[at] <= offset) {
            at++;
        }
    }
    return offset;
}

/* Raises the blocks of a section off infeasible offsets; returns false if one has none left. */
static bool raise_members(dtn_packing_t *packing, const dtn_state_t *state, uint32_t section, uint32_t count)
{
    uint32_t limit = packing->capacity - state->rest[section];
    sort_by_end(packing, state, count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t block = packing->sorted[i];
        if (state->earliest[block] <= limit) {
            continue;
        }
        uint32_t offset = lowest_offset(packing, block, state->earliest[block], count, limit);
        if (offset == DTN_NONE || offset + packing->blocks[block].size > packing->capacity) {
            return false;
        }
        dtn_state_raise(packing, state, block, offset);
    }
    return true;
}

static bool section_is_possible(dtn_packing_t *packing, const dtn_state_t *state, uint32_t section)
{
    uint32_t count = 0;
    uint32_t floor = packing->capacity;
    uint32_t least_end = DTN_NONE;
    uint32_t highest = 0;
    for (uint32_t i = packing->members_start[section]; i < packing->members_start[section + 1]; i++) {
        uint32_t block = packing->members[i];
        uint32_t earliest = state->earliest[block];
        if (earliest == DTN_PLACED) {
            continue;
        }
        uint32_t end = earliest + packing->blocks[block].size;
        packing->sorted[count++] = block;
        floor = earliest < floor ? earliest : floor;
        least_end = end < least_end ? end : least_end;
        highest = earliest > highest ? earliest : highest;
    }
    packing->steps += count;
    state->floor[section] = floor;
    state->end[section] = least_end;
    if (floor + state->rest[section] > packing->capacity) {
        return false;
    }
    return highest + state->rest[section] <= packing->capacity || raise_members(packing, state, section, count);
}

bool dtn_state_propagate(dtn_packing_t *packing, const dtn_state_t *state)
{
    bool possible = true;
    while (packing->queued > 0) {
        uint32_t section = packing->queue[--packing->queued];
        packing->is_queued[section] = 0;
        if (possible && !section_is_possible(packing, state, section)) {
            packing->weights[section]++;
            possible = false;
        }
    }
    return possible;
}
