/* Captures errors that ExecuTorch's runtime logs, on request, so that an error message can include its reason. */
#include <executorch/runtime/platform/platform.h>

#include <algorithm>
#include <cstring>

#include "observer.h"

namespace
{

using executorch::runtime::PalImpl;

/* Captured lines of one thread. Enough for the reasons of one failure; the first lines matter most, so the rest is
 * dropped. */
struct Captured {
    bool open;
    size_t used;
    char lines[4096];
};

thread_local Captured captured;

/* The previous target of log lines. */
pal_emit_log_message_method show = nullptr;

void capture_or_show(et_timestamp_t timestamp, et_pal_log_level_t level, const char *filename, const char *function,
                     size_t line, const char *message, size_t length)
{
    if (level == kDebug || level == kInfo) {
        return; /* such as the files of the host's processor that the runtime reads */
    }
    if (!captured.open || level != kError) {
        show(timestamp, level, filename, function, line, message, length);
    } else if (length + 1 <= sizeof captured.lines - captured.used) {
        std::memcpy(captured.lines + captured.used, message, length);
        captured.lines[captured.used + length] = '\n';
        captured.used += length + 1;
    }
}

bool install()
{
    show = executorch::runtime::get_pal_impl()->emit_log_message;
    return executorch::runtime::register_pal(PalImpl::create(capture_or_show, "deuteron host_log.cpp"));
}

} // namespace

extern "C" void deuteron_keep_log(void)
{
    /* Installed here, as a process that only loads this library keeps its own log. */
    [[maybe_unused]] static const bool installed = install();
    captured.open = true;
    captured.used = 0;
}

extern "C" size_t deuteron_take_log(char *buffer, size_t size)
{
    const size_t count = size == 0 ? 0 : std::min(captured.used, size - 1);
    if (size > 0) {
        std::memcpy(buffer, captured.lines, count);
        buffer[count] = '\0';
    }
    captured.open = false;
    captured.used = 0;
    return count;
}
