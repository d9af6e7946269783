/**
 * @file
 * The host file that `dtn_port_events` (deuteron/profile.h) writes to; without one it drops events.
 */
#pragma once

#include <stdbool.h>

/** Opens it; returns false on failure. */
bool dtn_events_open(const char *name);

/** Closes it; returns false if the host could not write everything. */
bool dtn_events_close(void);
