/* Internal state of the search; see packing.h. */
#pragma once

#include "packing.h"

/* `earliest` of a placed block. */
#define DTN_PLACED UINT32_MAX

/* No block, goal, frame or offset. */
#define DTN_NONE UINT32_MAX

/* The state at one depth of the search. The other arrays follow from the first. */
typedef struct {
    uint32_t *earliest; /* per block: its lowest possible offset, or DTN_PLACED */
    uint32_t *rest;     /* per section: units of its unplaced blocks */
    uint32_t *floor;    /* per section: the least `earliest` of these */
    uint32_t *end;      /* per section: the least `earliest` + size of these */
} dtn_state_t;

/* Sections `begin` to `end` - 1, whose blocks are in no other section, so that they can be packed independently. If
 * they cannot be packed, the search backtracks to frame `parent`. `next` is the goal after this one. */
typedef struct {
    uint32_t begin;
    uint32_t end;
    uint32_t parent;
    uint32_t next;
} dtn_goal_t;

/* A decision: which block is the lowest in `section`, at `offset`. */
typedef struct {
    uint32_t goal;
    uint32_t goals; /* number of goals when the frame was opened */
    uint32_t section;
    uint32_t offset;
    uint32_t tried; /* ranks below it were tried; above the count: the branch without a block, too */
    uint64_t key;   /* hash of the state, for the table of failed states */
    uint64_t check;
} dtn_frame_t;

typedef struct {
    uint64_t key;
    uint64_t check;
} dtn_failed_t;

struct dtn_packing {
    uint32_t count;
    uint32_t sections;
    uint32_t capacity;
    uint32_t frame_limit;
    uint64_t steps;
    bool is_impossible;

    dtn_packing_block_t *blocks;
    uint32_t *members;       /* blocks of section 0, of section 1, ... */
    uint32_t *members_start; /* per section, and the end of the last */

    uint32_t *states; /* of `frame_limit` + 1 depths, each as dtn_state_t has them */
    dtn_frame_t *frames;
    dtn_goal_t *goals;
    uint32_t frame_count;
    uint32_t goal_count;

    dtn_failed_t *failed;
    uint64_t failed_mask;

    uint64_t *weights; /* per section: 1 plus the number of its failures */
    uint32_t *ranks;   /* per block: its position in the caller's order */
    uint32_t *offsets; /* per placed block */

    /* Scratch memory of the propagation: queue of sections; the blocks of a section by their lowest ends, these ends,
     * and prefix sums of their sizes. */
    uint32_t *queue;
    uint32_t *is_queued;
    uint32_t queued;
    uint32_t *sorted;
    uint32_t *ends;
    uint32_t *below;
};

/* Returns the state at a depth. */
dtn_state_t dtn_state_at(const dtn_packing_t *packing, uint32_t depth);

/* Raises an unplaced block to at least `offset`, and queues the sections that this affects. */
void dtn_state_raise(dtn_packing_t *packing, const dtn_state_t *state, uint32_t block, uint32_t offset);

/* Places a block, and raises the blocks that overlap it in time above it. */
void dtn_state_place(dtn_packing_t *packing, const dtn_state_t *state, uint32_t block, uint32_t offset);

/* Queues a section. */
void dtn_state_queue(dtn_packing_t *packing, uint32_t section);

/* Propagates until the queue is empty; returns false if a section is infeasible. */
bool dtn_state_propagate(dtn_packing_t *packing, const dtn_state_t *state);

/* Chooses the section and offset of the frame: fewest branches per weight of the section's failures. */
void dtn_branch_choose(dtn_packing_t *packing, const dtn_state_t *state, const dtn_goal_t *goal, dtn_frame_t *frame);

/* Returns the next block to try as the lowest of the frame's section, DTN_NONE after the last; advances `tried`. */
uint32_t dtn_branch_next(const dtn_packing_t *packing, const dtn_state_t *state, dtn_frame_t *frame);

/* Returns the lowest offset above the frame's at which a block of its section can start; DTN_NONE if there is none. */
uint32_t dtn_branch_above(const dtn_packing_t *packing, const dtn_state_t *state, const dtn_frame_t *frame);

/* Returns true if another branch dominates: a block was raised off an offset that no other block can use any more.
 * `placed` is the block that the branch has placed, or DTN_NONE. */
bool dtn_branch_is_dominated(const dtn_packing_t *packing, const dtn_state_t *before, const dtn_state_t *after,
                             uint32_t placed);
