/* The log of fuzz targets: most runs end with a refusal, so that only messages before an abort are printed. */
#pragma once

#include <executorch/runtime/platform/platform.h>
#include <executorch/runtime/platform/runtime.h>

#include <cstdio>

static void show_fatal(et_timestamp_t, et_pal_log_level_t level, const char *filename, const char *, size_t line,
                       const char *message, size_t length)
{
    if (level == kFatal) {
        std::fprintf(stderr, "%s:%zu: %.*s\n", filename, line, static_cast<int>(length), message);
    }
}

/* Starts the runtime with this log. */
static void start_runtime(void)
{
    executorch::runtime::register_pal(executorch::runtime::PalImpl::create(show_fatal, __FILE__));
    executorch::runtime::runtime_init();
}
