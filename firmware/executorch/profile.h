/* ETDump events of a delegate call.
 *
 * Without profiling in the microcode there is one event, named `run`, for the driver. With it there are also
 *
 * - for each kernel call an event with an integer id: 0 for the partition's first call and so on, as in the
 * `debug_handle_map` of ExecuTorch's NXP backend. Its metadata is the kernel's number in one byte, as ExecuTorch's
 *   `analyzing_with_inspector.py` reads it (names: spec/microcode.md, section 6, and `deuteron.api.kernel_names` for
 *   Inspector);
 * - for each fetch and wait an event `fetch` or `wait` followed by the channel's number;
 * - for the delegate's work around the driver's run: `arguments` (finding buffers) and `log` (writing these events).
 * `transpose in` and `transpose out`, followed by the number of the NPU's input or output, include the copy to or from
 * its tensor.
 *
 * Only kernel events have metadata.
 *
 * The kernels' times come from the profile records of spec/microcode.md section 7, which count from the start of the
 * driver's run. An event has the span of its record only. All times are in the runtime's ticks, so that Inspector shows
 * true nanoseconds.
 */
#pragma once

#include <executorch/runtime/core/event_tracer.h>
#include <executorch/runtime/platform/types.h>

#include "payload.h"

/* Rate of the port's tick counter; the host port counts nanoseconds. */
#ifndef DEUTERON_TICKS_PER_SECOND
#define DEUTERON_TICKS_PER_SECOND 1000000000
#endif

namespace deuteron
{

/* A phase of a delegate call; it starts where the previous one stopped. */
struct Phase {
    const char *name;
    size_t index; /* number of a transposed input or output */
    et_timestamp_t stop;
};

/* The phases of a delegate call, recorded in order and logged at its end, so that logging does not affect their times.
 */
class Phases
{
  public:
    /* Starts the first phase. `memory` has space for all; nullptr disables recording. */
    explicit Phases(Phase *memory);

    /* Ends the current phase and starts the next. */
    void end(const char *name, size_t index = 0);

    /* Logs all phases and, with the profile block of the driver's run, its commands. The profile is empty if the
     * microcode has no profiling; then only `run` is logged. */
    void log(executorch::runtime::EventTracer *tracer, Bytes profile) const;

  private:
    Phase *phases_;
    size_t count_ = 0;
    et_timestamp_t start_ = 0;
};

/* Names of phases. */
extern const char *const kArguments;
extern const char *const kTransposeIn;
extern const char *const kRun;
extern const char *const kTransposeOut;

} // namespace deuteron
