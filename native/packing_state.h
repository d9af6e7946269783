/* What the files of the search share; see packing.h. */
#ifndef DEUTERON_NATIVE_PACKING_STATE_H
#define DEUTERON_NATIVE_PACKING_STATE_H

#include "packing.h"

/* `earliest` of a block that has its place. */
#define DTN_PLACED UINT32_MAX

/* No block, goal, frame or offset. */
#define DTN_NONE UINT32_MAX

/* What is known at one depth of the search. The first array is all of it, the others follow from it. */
typedef struct {
    uint32_t *earliest; /* per block: the lowest offset that is left to it, or DTN_PLACED */
    uint32_t *rest;     /* per section: units of its blocks that are not placed */
    uint32_t *floor;    /* per section: the least `earliest` of these */
    uint32_t *end;      /* per section: the least `earliest` + size of these */
} dtn_state_t;

/* Sections `begin` to `end` - 1, whose blocks lie in no other section: they can be packed without regard to the rest.
 * If they cannot be packed, then frame `parent` has to decide otherwise. `next` is what is to be packed after them. */
typedef struct {
    uint32_t begin;
    uint32_t end;
    uint32_t parent;
    uint32_t next;
} dtn_goal_t;

/* A decision: which block is the lowest in `section`, where it would lie at `offset`. */
typedef struct {
    uint32_t goal;
    uint32_t goals; /* how many there were when it was opened */
    uint32_t section;
    uint32_t offset;
    uint32_t tried; /* ranks below it have been tried; more than the count: that there is none, too */
    uint64_t key;   /* of the state, for the table of those that fail */
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

    uint64_t *weights; /* per section: 1 and how often it was found too full */
    uint32_t *ranks;   /* per block: its place in the caller's order */
    uint32_t *offsets; /* per block that has its place */

    /* Scratch of the propagation: the sections to look at; the blocks of one by their least ends, these ends, and sums
     * of the sizes of so many of them. */
    uint32_t *queue;
    uint32_t *is_queued;
    uint32_t queued;
    uint32_t *sorted;
    uint32_t *ends;
    uint32_t *below;
};

/* The state at a depth. */
dtn_state_t dtn_state_at(const dtn_packing_t *packing, uint32_t depth);

/* Lifts a block that has no place to at least `offset`, and queues the sections for which that may matter. */
void dtn_state_lift(dtn_packing_t *packing, const dtn_state_t *state, uint32_t block, uint32_t offset);

/* Gives a block its place, and lifts those that meet it above it. */
void dtn_state_place(dtn_packing_t *packing, const dtn_state_t *state, uint32_t block, uint32_t offset);

/* Queues a section. */
void dtn_state_queue(dtn_packing_t *packing, uint32_t section);

/* Looks at the queued sections, and at those that this queues, until none is left; false if one is too full. */
bool dtn_state_propagate(dtn_packing_t *packing, const dtn_state_t *state);

/* Sets the frame's section and offset: the decision of the goal's that has the fewest ways, by how often it failed. */
void dtn_branch_choose(dtn_packing_t *packing, const dtn_state_t *state, const dtn_goal_t *goal, dtn_frame_t *frame);

/* The next block to try as the lowest of the frame's section, DTN_NONE after the last; advances `tried`. */
uint32_t dtn_branch_next(const dtn_packing_t *packing, const dtn_state_t *state, dtn_frame_t *frame);

/* The lowest offset of the frame's section where a block can start if none does at the frame's; DTN_NONE if none. */
uint32_t dtn_branch_above(const dtn_packing_t *packing, const dtn_state_t *state, const dtn_frame_t *frame);

/* True when some block would always lie lower if another branch were taken: one that `after` has lifted off room that
 * nothing else can take any more. `placed` is the block that the branch has placed, or DTN_NONE. */
bool dtn_branch_is_dominated(const dtn_packing_t *packing, const dtn_state_t *before, const dtn_state_t *after,
                             uint32_t placed);

#endif
