/* Functions that a port may override. Each is weak; none is called by a name that a compiler could inline. */
#include "ethosu_driver.h"

#define WEAK __attribute__((weak))

WEAK void ethosu_irq_handler(struct ethosu_driver *drv)
{
    (void)drv;
}

#if DTN_ETHOSU_RELEASE == 0
WEAK void ethosu_flush_dcache(uint32_t *p, size_t bytes)
{
    (void)p;
    (void)bytes;
}

WEAK void ethosu_invalidate_dcache(uint32_t *p, size_t bytes)
{
    (void)p;
    (void)bytes;
}
#else
WEAK void ethosu_flush_dcache(const uint64_t *base_addr, const size_t *base_addr_size, int num_base_addr)
{
    (void)base_addr;
    (void)base_addr_size;
    (void)num_base_addr;
}

WEAK void ethosu_invalidate_dcache(const uint64_t *base_addr, const size_t *base_addr_size, int num_base_addr)
{
    (void)base_addr;
    (void)base_addr_size;
    (void)num_base_addr;
}
#endif

WEAK void ethosu_inference_begin(struct ethosu_driver *drv, void *user_arg)
{
    (void)drv;
    (void)user_arg;
}

WEAK void ethosu_inference_end(struct ethosu_driver *drv, void *user_arg)
{
    (void)drv;
    (void)user_arg;
}

/* A single thread needs no mutex; any pointer is valid. */
WEAK void *ethosu_mutex_create(void)
{
    static uint8_t place;
    return &place;
}

WEAK void ethosu_mutex_destroy(void *mutex)
{
    (void)mutex;
}

WEAK int ethosu_mutex_lock(void *mutex)
{
    (void)mutex;
    return 0;
}

WEAK int ethosu_mutex_unlock(void *mutex)
{
    (void)mutex;
    return 0;
}

/* The driver creates one. */
WEAK void *ethosu_semaphore_create(void)
{
    static uint32_t count;
    return &count;
}

WEAK void ethosu_semaphore_destroy(void *sem)
{
    (void)sem;
}

WEAK int ethosu_semaphore_take(void *sem, uint64_t timeout)
{
    uint32_t *count = sem;
    (void)timeout;
    if (*count == 0) {
        return -1;
    }
    (*count)--;
    return 0;
}

WEAK int ethosu_semaphore_give(void *sem)
{
    uint32_t *count = sem;
    (*count)++;
    return 0;
}
