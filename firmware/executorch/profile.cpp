#include "profile.h"

#include <executorch/runtime/core/event_tracer_hooks_delegate.h>
#include <executorch/runtime/platform/platform.h>

#include <cstring>

#include "deuteron/microcode.h"
#include "named_event.h"

namespace deuteron
{
namespace
{

using executorch::runtime::event_tracer_log_profiling_delegate;
using executorch::runtime::EventTracer;

/* Values of the opcode byte, spec/microcode.md section 7. */
enum Opcode : uint8_t { kCall = 6, kFetch = 7, kWait = 8 };

struct Stamp {
    uint8_t event;
    uint8_t opcode;
    uint8_t function;
    uint8_t timestamp;
    uint32_t time;
};

struct Record {
    Stamp start;
    Stamp stop;
};
static_assert(sizeof(Record) == DTN_PROFILE_RECORD_BYTES, "profile record");

/* Unwraps the port's 32-bit counter; the time between two stamps must be below 2^32 ticks. */
class Unwrapper
{
  public:
    explicit Unwrapper(uint32_t first) : last_(first)
    {
    }

    uint64_t operator()(uint32_t time)
    {
        total_ += static_cast<uint32_t>(time - last_);
        last_ = time;
        return total_;
    }

  private:
    uint32_t last_;
    uint64_t total_ = 0;
};

et_timestamp_t to_runtime_ticks(uint64_t port_ticks)
{
    const et_tick_ratio_t ratio = executorch::runtime::pal_ticks_to_ns_multiplier();
    const uint64_t seconds = port_ticks / DEUTERON_TICKS_PER_SECOND;
    const uint64_t rest = port_ticks % DEUTERON_TICKS_PER_SECOND;
    const uint64_t ns = seconds * 1000000000 + rest * 1000000000 / DEUTERON_TICKS_PER_SECOND;
    return ns * ratio.denominator / ratio.numerator;
}

/* Logs the commands of a run that started at `start`; the last record goes from the end to the start. */
void log_commands(EventTracer *tracer, et_timestamp_t start, Bytes profile)
{
    const size_t commands = profile.size() / sizeof(Record) - 1;
    Record record;
    std::memcpy(&record, profile.data() + commands * sizeof record, sizeof record);
    Unwrapper unwrap(record.stop.time);
    int32_t calls = 0;
    for (size_t i = 0; i < commands; i++) {
        std::memcpy(&record, profile.data() + i * sizeof record, sizeof record);
        const et_timestamp_t begin = start + to_runtime_ticks(unwrap(record.start.time));
        const et_timestamp_t end = start + to_runtime_ticks(unwrap(record.stop.time));
        if (record.stop.opcode == kCall) {
            event_tracer_log_profiling_delegate(tracer, nullptr, static_cast<executorch::runtime::DebugHandle>(calls++),
                                                begin, end, &record.stop.function, sizeof record.stop.function);
        } else {
            log_named(tracer, record.stop.opcode == kFetch ? "fetch" : "wait", begin, end, record.stop.function);
        }
    }
}

} // namespace

const char *const kArguments = "arguments";
const char *const kTransposeIn = "transpose in";
const char *const kRun = "run";
const char *const kTransposeOut = "transpose out";

Phases::Phases(Phase *memory) : phases_(memory)
{
    if (phases_ != nullptr) {
        start_ = executorch::runtime::pal_current_ticks();
    }
}

void Phases::end(const char *name, size_t index)
{
    if (phases_ != nullptr) {
        phases_[count_++] = {name, index, executorch::runtime::pal_current_ticks()};
    }
}

void Phases::log(EventTracer *tracer, Bytes profile) const
{
    if (tracer == nullptr || phases_ == nullptr) {
        return;
    }
    const bool profiled = profile.size() >= sizeof(Record);
    et_timestamp_t start = start_;
    for (size_t i = 0; i < count_; i++) {
        const Phase &phase = phases_[i];
        if (phase.name == kRun) {
            if (profiled) {
                log_commands(tracer, start, profile);
            }
            log_named(tracer, phase.name, start, phase.stop);
        } else if (profiled) {
            log_named(tracer, phase.name, start, phase.stop,
                      phase.name == kArguments ? -1 : static_cast<int>(phase.index));
        }
        start = phase.stop;
    }
    if (profiled) {
        log_named(tracer, "log", start, executorch::runtime::pal_current_ticks());
    }
}

} // namespace deuteron
