/**
 * @file
 * The file of the host that `dtn_port_events` (deuteron/profile.h) writes to; without one it drops what it is given.
 */
#ifndef DTN_EVENTS_H
#define DTN_EVENTS_H

#include <stdbool.h>

/** Opens it; false when that fails. */
bool dtn_events_open(const char *name);

/** Closes it; false when the host could not write everything. */
bool dtn_events_close(void);

#endif /* DTN_EVENTS_H */
