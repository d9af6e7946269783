#include "profile.h"

#include <executorch/runtime/core/event_tracer_hooks_delegate.h>
#include <executorch/runtime/platform/platform.h>

#include <cstring>

#include "../named_event.h"

namespace deuteron
{
namespace ethosu
{
namespace
{

using executorch::runtime::DebugHandle;
using executorch::runtime::event_tracer_log_profiling_delegate;
using executorch::runtime::EventTracer;
using executorch::runtime::pal_current_ticks;

/* Names by the parameter of the operation. */
struct Name {
    uint16_t param;
    const char *name;
};

constexpr Name kPools[] = {
    {0, "max_pool"}, {1, "average_pool"}, {2, "reduce_sum"}, {3, "sum_pool"},
    {4, "restore"},  {5, "min_pool"},     {6, "argmax_x"},   {7, "argmax_y"},
};
constexpr Name kElementwise[] = {
    {0, "mul"},     {1, "add"},     {2, "sub"},  {3, "min"},  {4, "max"},  {5, "lrelu"},   {6, "abs"},
    {7, "clz"},     {8, "shr"},     {9, "shl"},  {10, "lsr"}, {11, "div"}, {16, "cmp_eq"}, {17, "cmp_ne"},
    {18, "cmp_ge"}, {19, "cmp_gt"}, {33, "and"}, {34, "or"},  {35, "xor"}, {36, "not"},    {42, "and_not"},
};
constexpr Name kResizes[] = {{0, "resize_bilinear"}, {1, "resize_replicate"}, {2, "resize_nearest"}};

template <size_t N> const char *named(const Name (&names)[N], uint16_t param)
{
    for (const Name &name : names) {
        if (name.param == param) {
            return name.name;
        }
    }
    return "unknown";
}

/* The name of an operation in listings, as in `deuteron/npu/ethosu/isa.py`. */
const char *name_of(const dtn_ethosu_event_t &event)
{
    switch (event.opcode) {
    case DTN_ETHOSU_OP_CONV:
        return "conv";
    case DTN_ETHOSU_OP_DEPTHWISE:
        return "depthwise";
    case DTN_ETHOSU_OP_POOL:
        return named(kPools, event.param);
    case DTN_ETHOSU_OP_ELEMENTWISE:
        return named(kElementwise, event.param);
    case DTN_ETHOSU_OP_RESIZE:
        return named(kResizes, event.param);
    default:
        return "unknown";
    }
}

} // namespace

TimeSpan::TimeSpan(EventTracer *tracer) : tracer_(tracer)
{
    if (tracer_ != nullptr) {
        start_ = pal_current_ticks();
    }
}

void TimeSpan::end(const char *name, size_t index) const
{
    if (tracer_ != nullptr) {
        log_named(tracer_, name, start_, pal_current_ticks(), static_cast<int>(index));
    }
}

dtn_ethosu_fault_t run_logged(EventTracer *tracer, dtn_ethosu_t *machine, dtn_ethosu_event_t *event)
{
    if (tracer == nullptr) {
        return dtn_ethosu_run(machine, event);
    }
    const et_timestamp_t begin = pal_current_ticks();
    uint32_t at = 0;
    DebugHandle number = 0; /* number of the operation at that byte of the commands */
    for (;;) {
        const et_timestamp_t start = pal_current_ticks();
        const dtn_ethosu_fault_t fault = dtn_ethosu_step(machine, event);
        const et_timestamp_t stop = pal_current_ticks();
        if (fault != DTN_ETHOSU_OK) {
            return fault;
        }
        if (event->opcode == DTN_ETHOSU_OP_STOP) {
            log_named(tracer, "run", begin, stop);
            return fault;
        }
        if (event->opcode == DTN_ETHOSU_OP_DMA_START) {
            log_named(tracer, "fetch", start, stop);
        } else {
            if (event->offset < at) {
                at = 0;
                number = 0;
            }
            number += dtn_ethosu_operations(machine, at, event->offset);
            at = event->offset;
            const char *name = name_of(*event);
            event_tracer_log_profiling_delegate(tracer, nullptr, number, start, stop, name, std::strlen(name));
        }
    }
}

} // namespace ethosu
} // namespace deuteron
