/* Branching: the next decision, the order of its branches, and dominance between them. */
#include "packing_state.h"

static bool is_live(const dtn_state_t *state, uint32_t block)
{
    return state->earliest[block] != DTN_PLACED;
}

/* Comparisons that take as long as one step of the propagation. */
#define DTN_COMPARISONS_PER_STEP 32U

/* Returns true if no other block fits below the block at its lowest offset. */
static bool can_be_lowest(const dtn_packing_t *packing, const dtn_state_t *state, uint32_t block, uint64_t *comparisons)
{
    const dtn_packing_block_t *b = &packing->blocks[block];
    for (uint32_t s = b->first; s <= b->last; s++) {
        (*comparisons)++;
        if (state->end[s] <= state->earliest[block]) {
            return false;
        }
    }
    return true;
}

/* Returns how many blocks can be the lowest of a section; 0 if another block fits below one of them elsewhere. */
static uint32_t count_candidates(const dtn_packing_t *packing, const dtn_state_t *state, uint32_t section,
                                 uint64_t *comparisons)
{
    uint32_t found = 0;
    *comparisons += packing->members_start[section + 1] - packing->members_start[section];
    for (uint32_t i = packing->members_start[section]; i < packing->members_start[section + 1]; i++) {
        uint32_t block = packing->members[i];
        if (state->earliest[block] != state->floor[section]) {
            continue;
        }
        if (!can_be_lowest(packing, state, block, comparisons)) {
            return 0;
        }
        found++;
    }
    return found;
}

void dtn_branch_choose(dtn_packing_t *packing, const dtn_state_t *state, const dtn_goal_t *goal, dtn_frame_t *frame)
{
    uint64_t comparisons = 0;
    uint64_t best_cost = UINT64_MAX;
    uint64_t best_weight = 1;
    /* There always is one: nothing fits below the lowest floor of all. */
    for (uint32_t s = goal->begin; s < goal->end; s++) {
        if (state->rest[s] == 0) {
            continue;
        }
        uint32_t blocks = count_candidates(packing, state, s, &comparisons);
        if (blocks == 0) {
            continue;
        }
        /* The branch in which no block starts at the floor counts half: it rarely succeeds. */
        bool may_waste = state->floor[s] + state->rest[s] < packing->capacity;
        uint64_t cost = 2U * (uint64_t)blocks + (may_waste ? 1U : 0U);
        uint64_t weight = packing->weights[s];
        bool is_forced = cost <= 2U;
        if (best_cost == UINT64_MAX || is_forced || cost * best_weight < best_cost * weight) {
            best_cost = cost;
            best_weight = weight;
            frame->section = s;
            frame->offset = state->floor[s];
        }
        if (is_forced) {
            break;
        }
    }
    packing->steps += comparisons / DTN_COMPARISONS_PER_STEP;
}

static bool are_equal(const dtn_packing_block_t *a, const dtn_packing_block_t *b)
{
    return a->size == b->size && a->first == b->first && a->last == b->last;
}

/* Returns true if the frame has tried a block of the same size and lifetime. */
static bool was_tried(const dtn_packing_t *packing, const dtn_state_t *state, const dtn_frame_t *frame, uint32_t block)
{
    uint32_t s = frame->section;
    for (uint32_t i = packing->members_start[s]; i < packing->members_start[s + 1]; i++) {
        uint32_t other = packing->members[i];
        bool was_before = state->earliest[other] == frame->offset && packing->ranks[other] < packing->ranks[block];
        if (was_before && are_equal(&packing->blocks[other], &packing->blocks[block])) {
            return true;
        }
    }
    return false;
}

uint32_t dtn_branch_next(const dtn_packing_t *packing, const dtn_state_t *state, dtn_frame_t *frame)
{
    for (;;) {
        uint32_t next = DTN_NONE;
        uint32_t s = frame->section;
        for (uint32_t i = packing->members_start[s]; i < packing->members_start[s + 1]; i++) {
            uint32_t block = packing->members[i];
            bool is_left = state->earliest[block] == frame->offset && packing->ranks[block] >= frame->tried;
            if (is_left && (next == DTN_NONE || packing->ranks[block] < packing->ranks[next])) {
                next = block;
            }
        }
        frame->tried = next == DTN_NONE ? packing->count : packing->ranks[next] + 1;
        if (next == DTN_NONE || !was_tried(packing, state, frame, next)) {
            return next;
        }
    }
}

uint32_t dtn_branch_above(const dtn_packing_t *packing, const dtn_state_t *state, const dtn_frame_t *frame)
{
    uint32_t above = DTN_NONE;
    uint32_t first = frame->section;
    uint32_t last = frame->section;
    for (uint32_t i = packing->members_start[frame->section]; i < packing->members_start[frame->section + 1]; i++) {
        uint32_t block = packing->members[i];
        if (state->earliest[block] == frame->offset) {
            const dtn_packing_block_t *b = &packing->blocks[block];
            first = b->first < first ? b->first : first;
            last = b->last > last ? b->last : last;
        } else if (state->earliest[block] < above) {
            above = state->earliest[block];
        }
    }
    /* A block that does not start at the offset rests on another one outside the section. */
    for (uint32_t block = 0; block < packing->count; block++) {
        const dtn_packing_block_t *b = &packing->blocks[block];
        bool is_outside = b->last < frame->section || b->first > frame->section;
        if (is_live(state, block) && is_outside && b->first <= last && b->last >= first) {
            uint32_t end = state->earliest[block] + b->size;
            above = end < above ? end : above;
        }
    }
    return above;
}

/* Returns true if no other block fits below `end` during the lifetime of the given one. */
static bool is_free_below(const dtn_packing_t *packing, const dtn_state_t *state, uint32_t block, uint32_t end)
{
    const dtn_packing_block_t *b = &packing->blocks[block];
    for (uint32_t s = b->first; s <= b->last; s++) {
        if (state->floor[s] >= end) {
            continue;
        }
        for (uint32_t i = packing->members_start[s]; i < packing->members_start[s + 1]; i++) {
            uint32_t other = packing->members[i];
            if (other != block && state->earliest[other] < end) {
                return false;
            }
        }
    }
    return true;
}

bool dtn_branch_is_dominated(const dtn_packing_t *packing, const dtn_state_t *before, const dtn_state_t *after,
                             uint32_t placed)
{
    for (uint32_t block = 0; block < packing->count; block++) {
        if (!is_live(after, block) || after->earliest[block] == before->earliest[block]) {
            continue;
        }
        const dtn_packing_block_t *b = &packing->blocks[block];
        if (placed != DTN_NONE) {
            const dtn_packing_block_t *p = &packing->blocks[placed];
            if (p->first <= b->last && b->first <= p->last) {
                continue;
            }
        }
        if (is_free_below(packing, after, block, before->earliest[block] + b->size)) {
            return true;
        }
    }
    return false;
}
