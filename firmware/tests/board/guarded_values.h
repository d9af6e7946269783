/**
 * @file
 * Memory for the values of one call, each of which ends where the memory protection unit begins to refuse: what an
 * operator reads or writes behind it is a fault. If there are more values than guards, the last ones share a slot.
 * Below each value is a fence: bytes that the operator must leave as they are.
 */
#pragma once

#include <stdbool.h>
#include <string.h>

#include "deuteron/bundle.h"
#include "mpu_guards.h"

enum { DTN_SLOT_BYTES = 12 * 1024, DTN_FENCE_BYTES = 32, DTN_FENCE = 0xA5 };

typedef struct {
    uint8_t memory[DTN_SLOT_BYTES];
    uint8_t guard[DTN_GUARD_BYTES];
} dtn_slot_t;

static dtn_slot_t dtn_slots[DTN_GUARDS] __attribute__((aligned(DTN_GUARD_BYTES)));

/** Turns on the guard of each slot. */
static inline void dtn_slots_on(void)
{
    for (uint32_t i = 0; i < DTN_GUARDS; i++) {
        dtn_guard(i, dtn_slots[i].guard);
    }
    dtn_guards_on(dtn_slots, sizeof dtn_slots);
}

/** The slot of a value. */
static inline uint8_t *dtn_slots_of(uint32_t value)
{
    return dtn_slots[value < DTN_GUARDS ? value : DTN_GUARDS - 1].memory;
}

/** Where the fence starts of a value that starts there. */
static inline uint32_t dtn_slots_fence(uint32_t start)
{
    return start < DTN_FENCE_BYTES ? 0 : (start - DTN_FENCE_BYTES) / 16 * 16;
}

/** Places each value at the end of a slot, the last ones in one if there are too many; false when one does not fit. */
static inline bool dtn_slots_place(dtn_operator_call_t *call)
{
    uint32_t left[DTN_GUARDS];
    for (uint32_t i = 0; i < DTN_GUARDS; i++) {
        left[i] = DTN_SLOT_BYTES;
    }
    for (uint32_t i = call->input_count + call->output_count; i-- > 0;) {
        dtn_tensor_t *value = &call->values[i];
        uint32_t slot = i < DTN_GUARDS ? i : DTN_GUARDS - 1;
        if (value->bytes > left[slot]) {
            return false;
        }
        const uint32_t start = left[slot] - value->bytes;
        left[slot] = dtn_slots_fence(start);
        value->data = dtn_slots_of(i) + start;
        memset(dtn_slots_of(i) + left[slot], DTN_FENCE, start - left[slot]);
    }
    return true;
}

/** False when something has been written below a value. */
static inline bool dtn_slots_are_kept(const dtn_operator_call_t *call)
{
    bool are_kept = true;
    for (uint32_t i = 0; i < call->input_count + call->output_count; i++) {
        const uint8_t *slot = dtn_slots_of(i);
        const uint32_t start = (uint32_t)((const uint8_t *)call->values[i].data - slot);
        for (uint32_t at = dtn_slots_fence(start); at < start; at++) {
            are_kept = are_kept && slot[at] == DTN_FENCE;
        }
    }
    return are_kept;
}
