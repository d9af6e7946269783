/* Keeps what ExecuTorch's runtime logs, so that an error message can give the runtime's own reason. */
#include <executorch/runtime/platform/platform.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "observer.h"

namespace
{

/* Enough for the reasons of one failure; the first lines say most, so what does not fit is dropped. */
char kept[4096];
size_t used = 0;
std::mutex lock;

void keep(et_timestamp_t /*timestamp*/, et_pal_log_level_t level, const char *filename, const char * /*function*/,
          size_t line, const char *message, size_t length)
{
    if (level == kFatal) {
        std::fprintf(stderr, "%s:%zu: %.*s\n", filename, line, static_cast<int>(length), message);
    }
    if (level != kError && level != kFatal) {
        return;
    }
    const std::lock_guard<std::mutex> guard(lock);
    if (length + 1 <= sizeof kept - used) {
        std::memcpy(kept + used, message, length);
        kept[used + length] = '\n';
        used += length + 1;
    }
}

const bool registered =
    executorch::runtime::register_pal(executorch::runtime::PalImpl::create(keep, "deuteron host_log.cpp"));

} // namespace

extern "C" size_t deuteron_take_log(char *buffer, size_t size)
{
    const std::lock_guard<std::mutex> guard(lock);
    const size_t count = size == 0 ? 0 : std::min(used, size - 1);
    if (size > 0) {
        std::memcpy(buffer, kept, count);
        buffer[count] = '\0';
    }
    used = 0;
    return count;
}
