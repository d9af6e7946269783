/*
 * The port for Zephyr: contexts are from the system heap, if there is one; ticks are the kernel's cycles. The SoC's own
 * driver controls an NPU's clock and power.
 */
#include "deuteron/port.h"

#include <errno.h>
#include <zephyr/cache.h>
#include <zephyr/kernel.h>
#include <zephyr/sys/__assert.h>

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

#if defined(CONFIG_DCACHE) && !defined(CONFIG_CACHE_MANAGEMENT)
#error "Deuteron's port: an NPU would compute with stale bytes; set CONFIG_CACHE_MANAGEMENT=y, or CONFIG_DCACHE=n"
#endif

/* Without a data cache there is nothing to do, which -ENOTSUP reports; any other error is a failure of the cache. */
static void assert_done(int result)
{
    __ASSERT(result == 0 || result == -ENOTSUP, "Deuteron's port: the data cache failed, error %d", result);
    ARG_UNUSED(result);
}

void dtn_port_cache_clean(const void *data, size_t bytes)
{
    assert_done(sys_cache_data_flush_range((void *)(uintptr_t)data, bytes));
}

void dtn_port_cache_invalidate(void *data, size_t bytes)
{
    /* Invalidation alone is defined for whole cache lines only. These lines are clean: flushing them first writes
     * nothing.
     */
    assert_done(sys_cache_data_flush_and_invd_range(data, bytes));
}
