/*
 * A board's own Ethos-U, through Arm's driver. Its mutexes are the driver's defaults, which do not lock: only one
 * thread at a time may reserve and release. Its semaphores are static: one counts the free NPUs, and each NPU has one.
 */
#include "board.h"
#include "core.h"
#include "ethosu_driver.h"
#include "npu.h"
#include "sleep.h"
#include "timer.h"
#if DTN_PROFILING && __has_include("pmu_ethosu.h")
#include "deuteron/port.h"
#include "pmu_ethosu.h"
#define COUNTS 1
#endif

enum { SEMAPHORES = 2, TICKS_PER_MS = DTN_TIMER_HZ / 1000, MAX_MS = DTN_TIMER_MAX_TICKS / TICKS_PER_MS };

typedef struct {
    uint32_t count;
    volatile bool is_empty;
    bool is_used;
} semaphore_t;

static struct ethosu_driver driver;
static semaphore_t semaphores[SEMAPHORES];

void *ethosu_semaphore_create(void)
{
    for (uint32_t i = 0; i < SEMAPHORES; i++) {
        if (!semaphores[i].is_used) {
            semaphores[i] = (semaphore_t){0, true, true};
            return &semaphores[i];
        }
    }
    return NULL;
}

void ethosu_semaphore_destroy(void *sem)
{
    ((semaphore_t *)sem)->is_used = false;
}

/* Adds 1 or -1; false if there is none to take. */
static bool add(semaphore_t *semaphore, int32_t places)
{
    const uint32_t state = dtn_interrupts_off();
    const bool is_there = places > 0 || !semaphore->is_empty;
    semaphore->count += is_there ? (uint32_t)places : 0;
    semaphore->is_empty = semaphore->count == 0;
    dtn_interrupts_restore(state);
    return is_there;
}

/* Sleeps until an interrupt or another thread signals the semaphore, for milliseconds that the timer bounds; fails
 * immediately if interrupts are off, as the NPU's interrupt would not come. */
int ethosu_semaphore_take(void *sem, uint64_t timeout)
{
    semaphore_t *semaphore = sem;
    const uint32_t ticks = timeout < MAX_MS ? (uint32_t)timeout * TICKS_PER_MS + 1 : DTN_TIMER_MAX_TICKS;
    while (!add(semaphore, -1)) {
        const bool given = dtn_sleep_while(&semaphore->is_empty, ticks);
        if (!given && (timeout != ETHOSU_SEMAPHORE_WAIT_FOREVER || dtn_interrupts_are_off())) {
            return -1;
        }
    }
    return 0;
}

int ethosu_semaphore_give(void *sem)
{
    (void)add(sem, 1);
    return 0;
}

void dtn_on_ethosu(void);

void dtn_on_ethosu(void)
{
    ethosu_irq_handler(&driver);
}

#if COUNTS
/* The counted events, by the driver's names and by the numbers of the NPU's manual. */
static const struct {
    enum ethosu_pmu_event_type type;
    uint32_t what;
} events[] = {{ETHOSU_PMU_NPU_ACTIVE, 0x23}, {ETHOSU_PMU_MAC_ACTIVE, 0x30}};
enum { EVENTS = sizeof events / sizeof events[0] };
#define COUNTERS (ETHOSU_PMU_CCNT_Msk | ((1UL << EVENTS) - 1))

/* Totals of all jobs: between two of them the NPU may be powered off, which clears its counters. */
static uint32_t cycles;
static uint32_t counts[EVENTS];

void ethosu_inference_begin(struct ethosu_driver *drv, void *user_arg)
{
    (void)user_arg;
    ETHOSU_PMU_Enable(drv);
    for (uint32_t i = 0; i < EVENTS; i++) {
        ETHOSU_PMU_Set_EVTYPER(drv, i, events[i].type);
    }
    ETHOSU_PMU_CYCCNT_Reset(drv);
    ETHOSU_PMU_EVCNTR_ALL_Reset(drv);
    ETHOSU_PMU_CNTR_Enable(drv, COUNTERS);
}

void ethosu_inference_end(struct ethosu_driver *drv, void *user_arg)
{
    (void)user_arg;
    ETHOSU_PMU_CNTR_Disable(drv, COUNTERS);
    cycles += (uint32_t)ETHOSU_PMU_Get_CCNTR(drv);
    for (uint32_t i = 0; i < EVENTS; i++) {
        counts[i] += ETHOSU_PMU_Get_EVCNTR(drv, i);
    }
    ETHOSU_PMU_Disable(drv);
}

bool dtn_port_npu_cycles(uint32_t *count)
{
    *count = cycles;
    return true;
}

bool dtn_port_npu_counter(uint32_t index, uint32_t *what, uint32_t *count)
{
    if (index >= EVENTS) {
        return false;
    }
    *what = events[index].what;
    *count = counts[index];
    return true;
}
#endif

bool dtn_npu_start(void)
{
    /* No fast scratch memory in the driver; secure and privileged, like the core. */
    if (ethosu_init(&driver, (void *)DTN_ETHOSU_BASE, NULL, 0, 1, 1) != 0) {
        return false;
    }
    dtn_interrupt_enable(DTN_ETHOSU_INTERRUPT);
    return true;
}
