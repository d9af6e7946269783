/* Events of profiled runs (deuteron/profile.h), kept in memory until someone reads them: a debugger that dumps the
 * bytes `dtn_events_kept` .. + `dtn_events_count` to a file for `deuteron profile --from-events`, or the application.
 * Only images with DTN_PROFILING need this file. With a UART, send the bytes instead of keeping them. */
#include <string.h>

#include "deuteron/profile.h"

/* Bytes that are kept; default 16 KiB, 16 per event and 72 per run. */
#ifndef DTN_EVENTS_BYTES
#define DTN_EVENTS_BYTES 16384
#endif

extern uint8_t dtn_events_kept[DTN_EVENTS_BYTES];
extern uint32_t dtn_events_count;

uint8_t dtn_events_kept[DTN_EVENTS_BYTES];
uint32_t dtn_events_count;

bool dtn_port_events(const void *data, uint32_t bytes)
{
    if (bytes > DTN_EVENTS_BYTES - dtn_events_count) {
        return false;
    }
    if (bytes != 0) {
        memcpy(dtn_events_kept + dtn_events_count, data, bytes);
    }
    dtn_events_count += bytes;
    return true;
}
