/* ETDump events with a name and no debug handle. */
#pragma once

#include <executorch/runtime/core/event_tracer_hooks_delegate.h>

#include <cstdio>

namespace deuteron
{

/* Logs the name, followed by a number if there may be several; without metadata. */
inline void log_named(executorch::runtime::EventTracer *tracer, const char *name, et_timestamp_t start,
                      et_timestamp_t stop, int number = -1)
{
    char text[40];
    if (number >= 0) {
        std::snprintf(text, sizeof text, "%s %d", name, number);
        name = text;
    }
    const auto none = static_cast<executorch::runtime::DebugHandle>(executorch::runtime::kUnsetDelegateDebugIntId);
    executorch::runtime::event_tracer_log_profiling_delegate(tracer, name, none, start, stop, nullptr, 0);
}

} // namespace deuteron
