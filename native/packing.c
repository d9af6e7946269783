/* Backtracking: goals, frames and the table of failed states. */
#include "packing_state.h"

#include <string.h>

/* One frame per placed block, and as many for decisions that place none. */
#define FRAMES_PER_BLOCK 2U

static bool is_in_range(const dtn_packing_config_t *config)
{
    uint64_t sum = 0;
    uint64_t sections = 0;
    if (config->count == 0 || config->count > UINT16_MAX || config->sections > UINT16_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < config->count; i++) {
        const dtn_packing_block_t *b = &config->blocks[i];
        if (b->size == 0 || b->last < b->first || b->last >= config->sections) {
            return false;
        }
        sum += b->size;
        sections += b->last - b->first + 1U;
    }
    return sum <= DTN_PACKING_MAX_UNITS && sections <= UINT32_MAX && config->table_bits >= 1 &&
           config->table_bits <= 28;
}

static uint32_t member_count(const dtn_packing_config_t *config)
{
    uint32_t members = 0;
    for (uint32_t i = 0; i < config->count; i++) {
        members += config->blocks[i].last - config->blocks[i].first + 1U;
    }
    return members;
}

/* Allocates `count` items of `size` bytes; NULL if memory is NULL, which only sums sizes. */
static void *allocate(unsigned char *memory, uint64_t *used, uint64_t count, size_t size)
{
    void *found = memory == NULL ? NULL : memory + (size_t)*used;
    *used += (count * size + 7U) & ~(uint64_t)7U;
    return found;
}

/* Allocates all arrays and returns their bytes, which may exceed a size_t. */
static uint64_t lay_out(dtn_packing_t *p, unsigned char *memory, const dtn_packing_config_t *config)
{
    uint64_t used = (sizeof *p + 7U) & ~(uint64_t)7U;
    uint64_t count = config->count;
    uint64_t sections = config->sections;
    uint64_t frames = FRAMES_PER_BLOCK * count;
    p->blocks = allocate(memory, &used, count, sizeof *p->blocks);
    p->members = allocate(memory, &used, member_count(config), sizeof *p->members);
    p->members_start = allocate(memory, &used, sections + 1, sizeof *p->members_start);
    p->weights = allocate(memory, &used, sections, sizeof *p->weights);
    p->ranks = allocate(memory, &used, count, sizeof *p->ranks);
    p->offsets = allocate(memory, &used, count, sizeof *p->offsets);
    p->queue = allocate(memory, &used, sections, sizeof *p->queue);
    p->is_queued = allocate(memory, &used, sections, sizeof *p->is_queued);
    p->sorted = allocate(memory, &used, count, sizeof *p->sorted);
    p->ends = allocate(memory, &used, count, sizeof *p->ends);
    p->below = allocate(memory, &used, count + 1, sizeof *p->below);
    p->frames = allocate(memory, &used, frames, sizeof *p->frames);
    /* Each frame has opened one goal; the goals that wait have disjoint sections. */
    p->goals = allocate(memory, &used, frames + sections + 1, sizeof *p->goals);
    p->failed = allocate(memory, &used, (uint64_t)1 << config->table_bits, sizeof *p->failed);
    p->states = allocate(memory, &used, (frames + 1) * (count + 3U * sections), sizeof *p->states);
    return used;
}

size_t dtn_packing_bytes(const dtn_packing_config_t *config)
{
    dtn_packing_t packing;
    uint64_t bytes = is_in_range(config) ? lay_out(&packing, NULL, config) : 0;
    return (size_t)bytes == bytes ? (size_t)bytes : 0;
}

static void list_members(const dtn_packing_config_t *config, uint32_t *members, uint32_t *start)
{
    uint32_t count = 0;
    for (uint32_t s = 0; s < config->sections; s++) {
        start[s] = count;
        for (uint32_t i = 0; i < config->count; i++) {
            if (config->blocks[i].first <= s && s <= config->blocks[i].last) {
                members[count++] = i;
            }
        }
    }
    start[config->sections] = count;
}

dtn_packing_t *dtn_packing_init(void *memory, const dtn_packing_config_t *config)
{
    if (dtn_packing_bytes(config) == 0) {
        return NULL;
    }
    dtn_packing_t *p = memory;
    lay_out(p, memory, config);
    p->count = config->count;
    p->sections = config->sections;
    p->capacity = config->capacity < DTN_PACKING_MAX_UNITS ? config->capacity : DTN_PACKING_MAX_UNITS;
    p->frame_limit = FRAMES_PER_BLOCK * config->count;
    p->failed_mask = ((uint64_t)1 << config->table_bits) - 1U;
    memcpy(p->blocks, config->blocks, config->count * sizeof *p->blocks);
    list_members(config, p->members, p->members_start);
    dtn_state_t root = dtn_state_at(p, 0);
    for (uint32_t s = 0; s < p->sections; s++) {
        for (uint32_t i = p->members_start[s]; i < p->members_start[s + 1]; i++) {
            root.rest[s] += p->blocks[p->members[i]].size;
        }
        p->weights[s] = 1;
        dtn_state_queue(p, s);
    }
    p->is_impossible = !dtn_state_propagate(p, &root);
    return p;
}

/* Adds goals for the unplaced blocks of sections `begin` to `end` - 1: one for each run of sections that no block
 * leaves. Returns the first of them, or `next`, which follows the last. */
static uint32_t split(dtn_packing_t *p, const dtn_state_t *state, uint32_t begin, uint32_t end, uint32_t parent,
                      uint32_t next)
{
    for (uint32_t s = begin; s < end;) {
        if (state->rest[s] == 0) {
            s++;
            continue;
        }
        dtn_goal_t goal = {s, s + 1, parent, next};
        for (; s < goal.end; s++) {
            for (uint32_t i = p->members_start[s]; i < p->members_start[s + 1]; i++) {
                uint32_t block = p->members[i];
                if (state->earliest[block] != DTN_PLACED && p->blocks[block].last >= goal.end) {
                    goal.end = p->blocks[block].last + 1;
                }
            }
        }
        next = p->goal_count++;
        p->goals[next] = goal;
    }
    return next;
}

/* Mixes the bits of a word; a bijection. */
static uint64_t mixed(uint64_t word)
{
    word = (word ^ (word >> 32)) * UINT64_C(0xD6E8FEB86659FD93);
    word = (word ^ (word >> 32)) * UINT64_C(0xD6E8FEB86659FD93);
    return word ^ (word >> 32);
}

/* Sets the key and check of a frame: a 128-bit hash of its unplaced blocks and their lowest offsets, on which alone the
 * result depends. */
static void name_state(const dtn_packing_t *p, const dtn_state_t *state, dtn_frame_t *frame)
{
    const dtn_goal_t *goal = &p->goals[frame->goal];
    frame->key = 0;
    frame->check = 0;
    for (uint32_t block = 0; block < p->count; block++) {
        const dtn_packing_block_t *b = &p->blocks[block];
        if (state->earliest[block] != DTN_PLACED && b->first >= goal->begin && b->last < goal->end) {
            uint64_t word = mixed(((uint64_t)(block + 1) << 32) | state->earliest[block]);
            frame->key += word;
            frame->check += mixed(word + 1);
        }
    }
    frame->key |= 1U; /* 0 is an empty entry */
}

/* Returns one of the two table entries for the state of a frame. */
static dtn_failed_t *entry_of(const dtn_packing_t *p, const dtn_frame_t *frame, uint64_t which)
{
    return &p->failed[((frame->key >> 1) ^ which) & p->failed_mask];
}

static bool has_failed(const dtn_packing_t *p, const dtn_frame_t *frame)
{
    const dtn_failed_t *first = entry_of(p, frame, 0);
    const dtn_failed_t *second = entry_of(p, frame, 1);
    return (first->key == frame->key && first->check == frame->check) ||
           (second->key == frame->key && second->check == frame->check);
}

static void remember_failure(const dtn_packing_t *p, const dtn_frame_t *frame)
{
    bool is_free = entry_of(p, frame, 0)->key == 0;
    bool is_other_free = entry_of(p, frame, 1)->key == 0;
    uint64_t which = is_free ? 0 : is_other_free ? 1U : frame->check & 1U;
    dtn_failed_t failed = {frame->key, frame->check};
    *entry_of(p, frame, which) = failed;
}

/* Backtracks to the frame that opened the goal, and discards all later frames. */
static void give_up(dtn_packing_t *p, uint32_t goal)
{
    uint32_t parent = p->goals[goal].parent;
    p->frame_count = parent == DTN_NONE ? 0 : parent + 1;
}

/* Opens a frame for a goal, unless its state failed before. */
static void open_frame(dtn_packing_t *p, uint32_t goal)
{
    dtn_state_t state = dtn_state_at(p, p->frame_count);
    dtn_frame_t *frame = &p->frames[p->frame_count];
    frame->goal = goal;
    frame->goals = p->goal_count;
    frame->tried = 0;
    name_state(p, &state, frame);
    if (has_failed(p, frame)) {
        give_up(p, goal);
        return;
    }
    dtn_branch_choose(p, &state, &p->goals[goal], frame);
    p->frame_count++;
}

/* Computes the state of a branch: `block` is the lowest of the section, or with DTN_NONE no block starts there. Returns
 * false if the branch is infeasible or dominated. */
static bool enter_branch(dtn_packing_t *p, const dtn_frame_t *frame, uint32_t block)
{
    dtn_state_t before = dtn_state_at(p, p->frame_count - 1);
    dtn_state_t after = dtn_state_at(p, p->frame_count);
    memcpy(after.earliest, before.earliest, (p->count + 3U * (size_t)p->sections) * sizeof *after.earliest);
    if (block != DTN_NONE) {
        dtn_state_place(p, &after, block, frame->offset);
    } else {
        uint32_t above = dtn_branch_above(p, &before, frame);
        if (above == DTN_NONE) {
            return false;
        }
        for (uint32_t i = p->members_start[frame->section]; i < p->members_start[frame->section + 1]; i++) {
            if (before.earliest[p->members[i]] == frame->offset) {
                dtn_state_raise(p, &after, p->members[i], above);
            }
        }
    }
    return dtn_state_propagate(p, &after) && !dtn_branch_is_dominated(p, &before, &after, block);
}

/* Enters the next feasible branch and sets the next goal; returns false if none is left. */
static bool advance(dtn_packing_t *p, uint32_t *goal)
{
    while (p->frame_count > 0) {
        dtn_frame_t *frame = &p->frames[p->frame_count - 1];
        p->goal_count = frame->goals;
        if (frame->tried > p->count) {
            remember_failure(p, frame);
            give_up(p, frame->goal);
            continue;
        }
        dtn_state_t before = dtn_state_at(p, p->frame_count - 1);
        uint32_t block = dtn_branch_next(p, &before, frame);
        if (block == DTN_NONE) {
            frame->tried = p->count + 1;
        }
        if (enter_branch(p, frame, block)) {
            dtn_state_t after = dtn_state_at(p, p->frame_count);
            const dtn_goal_t *current = &p->goals[frame->goal];
            *goal = split(p, &after, current->begin, current->end, p->frame_count - 1, current->next);
            return true;
        }
    }
    return false;
}

dtn_packing_answer_t dtn_packing_search(dtn_packing_t *packing, const uint32_t *order, uint64_t steps,
                                        uint32_t *offsets)
{
    if (packing->is_impossible) {
        return DTN_PACKING_IMPOSSIBLE;
    }
    for (uint32_t i = 0; i < packing->count; i++) {
        packing->ranks[order[i]] = i;
    }
    uint64_t limit = packing->steps + steps;
    packing->frame_count = 0;
    packing->goal_count = 0;
    dtn_state_t root = dtn_state_at(packing, 0);
    uint32_t goal = split(packing, &root, 0, packing->sections, DTN_NONE, DTN_NONE);
    while (goal != DTN_NONE) {
        if (packing->steps >= limit || packing->frame_count == packing->frame_limit) {
            return DTN_PACKING_UNDECIDED;
        }
        open_frame(packing, goal);
        if (!advance(packing, &goal)) {
            return DTN_PACKING_IMPOSSIBLE;
        }
    }
    memcpy(offsets, packing->offsets, packing->count * sizeof *offsets);
    return DTN_PACKING_FOUND;
}

uint64_t dtn_packing_steps(const dtn_packing_t *packing)
{
    return packing->steps;
}
