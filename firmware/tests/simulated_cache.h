/**
 * @file
 * Memories behind a write-back cache, and the port's functions of it, of which tests leave out one kind of calls.
 *
 * `cached_seen` is what the core sees of the memories, `cached_held` what they hold themselves, which is what an NPU
 * reads and writes. Every line is always cached, so that nothing of the other side is seen by luck. Lines that are
 * dirty when the NPU starts are written back when it is done, the worst moment.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CACHED_LINE = 32, CACHED_BYTES = 1024, CACHED_KINDS = 8 };

typedef enum { CLEAN, INVALIDATE } cached_action_t;

/** A kind of calls: what is done to the part that starts there, before or after the NPU has run. */
typedef struct {
    cached_action_t action;
    size_t part;
    bool after;
    const char *name;
} cached_kind_t;

extern uint8_t cached_seen[CACHED_BYTES], cached_held[CACHED_BYTES];

/** The kind whose calls do nothing; the number of kinds for none. */
extern size_t cached_left_out;

/** Calls of each kind. */
extern size_t cached_calls[CACHED_KINDS];

/** Resets the model: each call of a test is one of these kinds, or an error; none is skipped. */
void cached_kinds(const cached_kind_t *kinds, size_t count);

/** Starts a program: the core sees zeros, the memories hold something else. */
void cached_reset(void);

/** Starts a run of the program, in which the NPU has not run; the core may compute in its place. */
void cached_run(bool on_core);

/** The memories as who computes in this run sees them. */
uint8_t *cached_there(void);

/** The NPU has run: lines that were dirty are written back, if it computed next to the core. */
void cached_npu_ran(void);

/** True if the NPU has run since `cached_run`. */
bool cached_has_run(void);

/** The position of a core's address in the memories; CACHED_BYTES for other addresses. */
size_t cached_at(const void *address);
