/* Zephyr's cache functions on a core without a data cache, and where its assertions end. */
#include <errno.h>
#include <zephyr/cache.h>
#include <zephyr/sys/__assert.h>

int sys_cache_data_flush_range(void *addr, size_t size)
{
    (void)addr;
    (void)size;
    return -ENOTSUP;
}

int sys_cache_data_flush_and_invd_range(void *addr, size_t size)
{
    (void)addr;
    (void)size;
    return -ENOTSUP;
}

void assert_print(const char *fmt, ...)
{
    (void)fmt;
}

void assert_post_action(const char *file, unsigned int line)
{
    (void)file;
    (void)line;
    for (;;) {
    }
}
