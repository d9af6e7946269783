/**
 * @file
 * What the parts of the watch share: operations in watch.c, copies in watch_copy.c.
 */
#ifndef DTN_ETHOSU_WATCH_PARTS_H
#define DTN_ETHOSU_WATCH_PARTS_H

#include "accesses.h"
#include "cells.h"

/** The number of the command that is watched. */
static inline uint32_t dtn_eu_command_number(const dtn_ethosu_watch_t *watch)
{
    return watch->machine.event.offset / 4 + 1;
}

/** Ends what a command reads of a part. */
static inline void dtn_eu_finish_read(dtn_eu_scan_t *scan)
{
    scan->watch->seen->values[scan->part] = scan->value;
    scan->value = 0;
}

/** Puts a command first among those that run; what falls out has been waited for. */
static inline void dtn_eu_note_start(uint32_t *running, uint32_t number, uint32_t most)
{
    for (uint32_t i = most - 1; i > 0; i--) {
        running[i] = running[i - 1];
    }
    running[0] = number;
}

/** What a copy reads and writes. */
void dtn_eu_see_copy(dtn_ethosu_watch_t *watch, const dtn_eu_rows_t *rows);

#endif /* DTN_ETHOSU_WATCH_PARTS_H */
