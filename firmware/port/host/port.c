/* The port for hosts with POSIX clocks: heap for contexts, ticks in nanoseconds, no NPU clock to gate. */
#define _POSIX_C_SOURCE 200809L

#include "deuteron/port.h"

#include <stdlib.h>
#include <time.h>

bool dtn_port_init(void)
{
    return true;
}

void dtn_port_deinit(void)
{
}

void *dtn_port_alloc(size_t size)
{
    void *memory = NULL;
    return posix_memalign(&memory, 16, size) == 0 ? memory : NULL;
}

void dtn_port_free(void *memory)
{
    free(memory);
}

uint32_t dtn_port_ticks(void)
{
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0) {
        return 0;
    }
    return (uint32_t)((uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec);
}

void dtn_port_clock(bool on)
{
    (void)on;
}

void dtn_port_cache_clean(const void *data, size_t bytes)
{
    (void)data;
    (void)bytes;
}

void dtn_port_cache_invalidate(void *data, size_t bytes)
{
    (void)data;
    (void)bytes;
}
