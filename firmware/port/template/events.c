/* Stores events of profiled runs (deuteron/profile.h) in memory for a debugger, which dumps the bytes
 * `dtn_events_kept` .. + `dtn_events_count` to a file for `deuteron profile --from-events`, or for the application.
 * A run that does not fit is dropped as a whole and counted in `dtn_events_refused`.
 * Only images with DTN_PROFILING need this file. With a UART, send the bytes instead. */
#include <string.h>

#include "deuteron/profile.h"

/* Size of the store; default 16 KiB, 16 per event and 72 per run. */
#ifndef DTN_EVENTS_BYTES
#define DTN_EVENTS_BYTES 16384
#endif

extern uint8_t dtn_events_kept[DTN_EVENTS_BYTES];
extern uint32_t dtn_events_count;
extern uint32_t dtn_events_refused;

uint8_t dtn_events_kept[DTN_EVENTS_BYTES];
uint32_t dtn_events_count;
uint32_t dtn_events_refused;

bool dtn_port_events(const dtn_profile_header_t *header, const dtn_event_t *events)
{
    uint32_t space = DTN_EVENTS_BYTES - dtn_events_count;
    if (space < sizeof *header || header->events > (space - sizeof *header) / sizeof *events) {
        dtn_events_refused++;
        return false;
    }
    uint8_t *at = dtn_events_kept + dtn_events_count;
    uint32_t bytes = header->events * (uint32_t)sizeof *events;
    memcpy(at, header, sizeof *header);
    if (bytes != 0) {
        memcpy(at + sizeof *header, events, bytes);
    }
    dtn_events_count += (uint32_t)sizeof *header + bytes;
    return true;
}
