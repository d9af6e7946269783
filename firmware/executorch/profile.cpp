#include "profile.h"

#include <executorch/runtime/core/event_tracer_hooks_delegate.h>
#include <executorch/runtime/platform/platform.h>

#include <cstring>

#include "deuteron/microcode.h"

namespace deuteron
{
namespace
{

using executorch::runtime::event_tracer_log_profiling_delegate;
using executorch::runtime::EventTracer;
using executorch::runtime::kUnsetDelegateDebugIntId;

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

const char *kernel_name(uint8_t kind)
{
    switch (kind) {
#define DTN_X(name, NAME, ...)                                                                                         \
    case DTN_KERNEL_##NAME:                                                                                            \
        return #name;
        DTN_KERNELS(DTN_X)
#undef DTN_X
    default:
        return "unknown";
    }
}

/* Follows the port's 32-bit counter past its wraps; no step between two stamps may take 2^32 ticks. */
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

} // namespace

void log_run(EventTracer *tracer, const RunSpan &span, Bytes profile)
{
    if (tracer == nullptr) {
        return;
    }
    const size_t records = profile.size() / sizeof(Record);
    Record record;
    if (records > 0) {
        std::memcpy(&record, profile.data(), sizeof record);
    }
    Unwrapper unwrap(records > 0 ? record.start.time : 0);
    int32_t calls = 0;
    for (size_t i = 0; i + 1 < records; i++) {
        std::memcpy(&record, profile.data() + i * sizeof record, sizeof record);
        const et_timestamp_t start = span.start + to_runtime_ticks(unwrap(record.start.time));
        const et_timestamp_t stop = span.start + to_runtime_ticks(unwrap(record.stop.time));
        if (record.stop.opcode == kCall) {
            const char *const name = kernel_name(record.stop.function);
            event_tracer_log_profiling_delegate(tracer, nullptr, static_cast<executorch::runtime::DebugHandle>(calls++),
                                                start, stop, name, std::strlen(name));
        } else {
            const char channel = static_cast<char>('0' + record.stop.function % 10);
            event_tracer_log_profiling_delegate(tracer, record.stop.opcode == kFetch ? "fetch" : "wait",
                                                static_cast<executorch::runtime::DebugHandle>(kUnsetDelegateDebugIntId),
                                                start, stop, &channel, 1);
        }
    }
    event_tracer_log_profiling_delegate(
        tracer, "run", static_cast<executorch::runtime::DebugHandle>(kUnsetDelegateDebugIntId), span.start, span.stop);
}

} // namespace deuteron
