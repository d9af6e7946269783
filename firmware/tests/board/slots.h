/**
 * @file
 * Memory for the values of one call, each of which ends where the memory protection unit begins to refuse: what an
 * operator reads or writes behind it is a fault.
 */
#ifndef DTN_SLOTS_H
#define DTN_SLOTS_H

#include <stdbool.h>

#include "deuteron/bundle.h"
#include "guards.h"

enum { DTN_SLOT_BYTES = 12 * 1024 };

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
        value->data = dtn_slots[slot].memory + left[slot] - value->bytes;
        left[slot] = (left[slot] - value->bytes) / 16 * 16;
    }
    return true;
}

#endif /* DTN_SLOTS_H */
