/* ETDump events of a partition's run.
 *
 * - for each run of an operation of the command stream, an event with an integer id: 0 for the partition's first
 * operation and so on, as in the delegate map of our ETRecords. Its metadata is the operation's name in listings;
 * - for each copy of the NPU's DMA an event `fetch`;
 * - an event `run` around all of them;
 * - `copy in` and `copy out` for each input and output, followed by its number.
 *
 * Times are in the runtime's ticks. Without an event tracer nothing is measured.
 */
#pragma once

#include <executorch/runtime/core/event_tracer.h>
#include <executorch/runtime/platform/types.h>

#include <cstddef>

#include "deuteron/ethosu.h"

namespace deuteron
{
namespace ethosu
{

/* A time span of a delegate call from now until `end`, which logs it; does nothing without a tracer. */
class TimeSpan
{
  public:
    explicit TimeSpan(executorch::runtime::EventTracer *tracer);
    void end(const char *name, size_t index) const;

  private:
    executorch::runtime::EventTracer *tracer_;
    et_timestamp_t start_ = 0;
};

/* Executes the rest of a stream as `dtn_ethosu_run` does, and logs its operations if there is a tracer. */
dtn_ethosu_fault_t run_logged(executorch::runtime::EventTracer *tracer, dtn_ethosu_t *machine,
                              dtn_ethosu_event_t *event);

} // namespace ethosu
} // namespace deuteron
