#include "deuteron/profile.h"

#include <stddef.h>
#include <string.h>

#include "deuteron/crc32.h"

#if !DTN_PROFILING
#error "profile.c needs -DDTN_PROFILING=1, which all files of the image must be compiled with"
#endif

/* The sent words and bytes must be the declared ones, without padding. */
typedef char header_has_no_padding[sizeof(dtn_profile_header_t) == DTN_PROGRAM_HASH_BYTES + 10 * 4 ? 1 : -1];

bool dtn_profile_send(const dtn_executor_t *executor, uint32_t run, uint32_t ticks_hz, uint32_t counts)
{
    if (executor == NULL) {
        return false;
    }
    dtn_profile_header_t header = {
        .magic = DTN_PROFILE_MAGIC,
        .version = DTN_PROFILE_VERSION,
        .ticks_hz = ticks_hz,
        .counts = counts,
        .run = run,
        .start = executor->run_start,
        .stop = executor->run_stop,
        .events = executor->event_count,
        .lost = executor->event_lost,
    };
    memcpy(header.program, dtn_profile_program, sizeof header.program);
    uint32_t bytes = header.events * (uint32_t)sizeof *executor->events;
    header.crc = dtn_crc32(0, &header, offsetof(dtn_profile_header_t, crc));
    header.crc = dtn_crc32(header.crc, executor->events, bytes);
    return dtn_port_events(&header, executor->events);
}
