/* What our port takes of Zephyr's cache interface, as Zephyr declares it. */
#ifndef ZEPHYR_CACHE_H
#define ZEPHYR_CACHE_H

#include <stddef.h>

int sys_cache_data_flush_range(void *addr, size_t size);
int sys_cache_data_invd_range(void *addr, size_t size);
int sys_cache_data_flush_and_invd_range(void *addr, size_t size);

#endif
