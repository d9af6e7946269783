/* Sends 24 runs of 60 events to the template's buffer and prints what it keeps; see test_board.py. */
#include <stdio.h>
#include <string.h>

#include "deuteron/profile.h"

#define RUNS 24
#define EVENTS 60

extern uint8_t dtn_events_kept[];
extern uint32_t dtn_events_count;
extern uint32_t dtn_events_refused;

const uint8_t dtn_profile_program[DTN_PROGRAM_HASH_BYTES] = {0};

int main(void)
{
    static dtn_event_t events[EVENTS];
    dtn_executor_t executor;
    memset(&executor, 0, sizeof executor);
    executor.events = events;
    executor.event_count = EVENTS;
    executor.run_stop = 10 * EVENTS;
    for (uint32_t i = 0; i < EVENTS; i++) {
        events[i].start = 10 * i;
        events[i].stop = 10 * i + 10;
    }
    uint32_t sent = 0;
    for (uint32_t run = 0; run < RUNS; run++) {
        sent += dtn_profile_send(&executor, run, 25000000, DTN_PROFILE_TIME);
    }
    fprintf(stderr, "%u sent, %u refused\n", (unsigned)sent, (unsigned)dtn_events_refused);
    return fwrite(dtn_events_kept, 1, dtn_events_count, stdout) != dtn_events_count;
}
