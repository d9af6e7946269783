/*
 * A board's own Ethos-U, by Arm's driver. Its locks are the driver's own, but for semaphores, which it would allocate:
 * an image has one that counts the free NPUs and one per NPU.
 */
#include "board.h"
#include "core.h"
#include "ethosu_driver.h"
#include "npu.h"

enum { SEMAPHORES = 2 };

static struct ethosu_driver driver;
static volatile uint32_t semaphores[SEMAPHORES];

void *ethosu_semaphore_create(void)
{
    static uint32_t created;
    return created < SEMAPHORES ? (void *)&semaphores[created++] : NULL;
}

void ethosu_semaphore_destroy(void *sem)
{
    (void)sem;
}

/* Sleeps until an interrupt or another thread has given. */
int ethosu_semaphore_take(void *sem, uint64_t timeout)
{
    volatile uint32_t *count = sem;
    (void)timeout;
    while (*count == 0) {
        __asm__ volatile("wfe" ::: "memory");
    }
    uint32_t state = dtn_interrupts_off();
    --*count;
    dtn_interrupts_restore(state);
    return 0;
}

int ethosu_semaphore_give(void *sem)
{
    volatile uint32_t *count = sem;
    uint32_t state = dtn_interrupts_off();
    ++*count;
    dtn_interrupts_restore(state);
    __asm__ volatile("sev" ::: "memory");
    return 0;
}

void dtn_on_ethosu(void);

void dtn_on_ethosu(void)
{
    ethosu_irq_handler(&driver);
}

bool dtn_npu_start(void)
{
    /* No memory of the driver's own for fast scratch; secure and privileged, like the core. */
    if (ethosu_init(&driver, (void *)DTN_ETHOSU_BASE, NULL, 0, 1, 1) != 0) {
        return false;
    }
    dtn_interrupt_enable(DTN_ETHOSU_INTERRUPT);
    return true;
}
