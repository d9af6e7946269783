/*
 * The port for Zephyr: contexts from the system heap, where there is one; ticks are the kernel's cycles. What the SoC's
 * own driver does for an NPU, clock and power, stays there.
 */
#include "deuteron/port.h"

#include <zephyr/cache.h>
#include <zephyr/kernel.h>

bool dtn_port_init(void)
{
    return true;
}

void dtn_port_deinit(void)
{
}

void *dtn_port_alloc(size_t size)
{
#if K_HEAP_MEM_POOL_SIZE > 0
    return k_aligned_alloc(16, size);
#else
    ARG_UNUSED(size);
    return NULL;
#endif
}

void dtn_port_free(void *memory)
{
#if K_HEAP_MEM_POOL_SIZE > 0
    k_free(memory);
#else
    ARG_UNUSED(memory);
#endif
}

uint32_t dtn_port_ticks(void)
{
    return k_cycle_get_32();
}

void dtn_port_clock(bool on)
{
    ARG_UNUSED(on);
}

void dtn_port_cache_clean(const void *data, size_t bytes)
{
    /* Without a data cache there is nothing to do, which is all that the result says. */
    (void)sys_cache_data_flush_range((void *)(uintptr_t)data, bytes);
}

void dtn_port_cache_invalidate(void *data, size_t bytes)
{
    (void)sys_cache_data_invd_range(data, bytes);
}
