/* ETDump events of a run.
 *
 * Without profiling in the microcode there is one event, named `run`. With it there are also, from the profile records
 * of spec/microcode.md section 7:
 *
 * - for each kernel call an event with an integer id, 0 for the first call of the partition and so on, as the
 *   `debug_handle_map` that ExecuTorch's NXP backend writes has them; its metadata is the kernel's name;
 * - for each fetch and wait an event named so; its metadata is the channel's number.
 *
 * An event has the span of its own record and nothing else. Times are in the runtime's ticks, counted from the start of
 * the run, so that Inspector shows true nanoseconds; the closing record of the profile, which spans the run in the
 * NPU's ticks, stands behind no event: `run` is measured with the runtime's clock.
 */
#ifndef DEUTERON_EXECUTORCH_PROFILE_H
#define DEUTERON_EXECUTORCH_PROFILE_H

#include <executorch/runtime/core/event_tracer.h>
#include <executorch/runtime/platform/types.h>

#include "payload.h"

/* Rate of the port's tick counter; the host port counts nanoseconds. */
#ifndef DEUTERON_TICKS_PER_SECOND
#define DEUTERON_TICKS_PER_SECOND 1000000000
#endif

namespace deuteron
{

/* The runtime's ticks round a run of the driver. */
struct RunSpan {
    et_timestamp_t start;
    et_timestamp_t stop;
};

/* Logs a run; `profile` is the profile block, empty without profiling or when the run failed. No tracer, no effect. */
void log_run(executorch::runtime::EventTracer *tracer, const RunSpan &span, Bytes profile);

} // namespace deuteron

#endif
