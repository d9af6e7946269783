/**
 * @file
 * One call of a kernel: checked once, then run.
 */
#pragma once

#include "types.h"

/** The three words of an operand, read in place. */
typedef struct {
    uint32_t place; /**< the region in the low 8 bits, its index above */
    uint32_t offset;
    uint32_t bytes;
} dtn_ref_t;

/** The operands of the call at `command`. */
static inline const dtn_ref_t *dtn_refs(const uint32_t *command)
{
    return (const dtn_ref_t *)(command + 3);
}

/** True if two operands share no byte. Both are inside their memories: sums do not overflow. */
bool dtn_is_disjoint(const dtn_ref_t *a, const dtn_ref_t *b);

/** Checks the call whose words start at `command`; the first word has their number. Fills `resolved`, of
 * DTN_MAX_OPERANDS, with its operands, with scratch places for inputs and outputs that have them. */
dtn_reason_t dtn_call_check(const dtn_model_t *model, const uint32_t *command, dtn_ref_t *resolved);

/** Runs the checked call at `command` on `buffers`. */
dtn_reason_t dtn_call_run(const dtn_model_t *model, const dtn_buffers_t *buffers, const uint32_t *command);
