/* What our port takes of Zephyr's cache interface, as Zephyr declares it; no core of the boards has a data cache. */
#ifndef ZEPHYR_CACHE_H
#define ZEPHYR_CACHE_H

#include <errno.h>
#include <stddef.h>

static inline int sys_cache_data_flush_range(void *addr, size_t size)
{
    (void)addr;
    (void)size;
    return -ENOTSUP;
}

static inline int sys_cache_data_invd_range(void *addr, size_t size)
{
    (void)addr;
    (void)size;
    return -ENOTSUP;
}

#endif
