/**
 * @file
 * Shared parts of the hazard check: operations, and copies.
 */
#pragma once

#include "accesses.h"
#include "shadow_memory.h"

/** The number of the checked command. */
static inline uint32_t dtn_ethosu_command_number(const dtn_ethosu_watch_t *watch)
{
    return watch->machine.event.offset / 4 + 1;
}

/** Completes the read of a part by a command. */
static inline void dtn_ethosu_finish_read(dtn_ethosu_scan_t *scan)
{
    scan->watch->seen->values[scan->part] = scan->value;
    scan->value = 0;
}

/** Adds a command to the running ones; the oldest one has been waited for. */
static inline void dtn_ethosu_note_start(uint32_t *running, uint32_t number, uint32_t most)
{
    for (uint32_t i = most - 1; i > 0; i--) {
        running[i] = running[i - 1];
    }
    running[0] = number;
}

/** Checks the reads and writes of a copy. */
void dtn_ethosu_check_copy(dtn_ethosu_watch_t *watch, const dtn_ethosu_rows_t *rows);
