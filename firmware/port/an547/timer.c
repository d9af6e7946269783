/* The timers: two of the subsystem's, which compare its 64-bit system counter with a value. */
#include "timer.h"

#include "board.h"
#include "core.h"

typedef struct {
    const volatile uint32_t count_low;
    const volatile uint32_t count_high;
    uint32_t reserved0[6];
    volatile uint32_t compare_low;
    volatile uint32_t compare_high;
    uint32_t reserved1;
    volatile uint32_t control;
} sse_timer_t;
DTN_CHECK_OFFSET(sse_timer_t, compare_low, 0x20);
DTN_CHECK_OFFSET(sse_timer_t, control, 0x2C);

enum { CONTROL_ENABLE = 1 };

static sse_timer_t *const timers[] = {(sse_timer_t *)0x58000000U, (sse_timer_t *)0x58001000U};
static const uint8_t interrupts[] = {3, 4};

/* Control of the system counter, which must run for the timers. */
#define SYSTEM_COUNTER (*(volatile uint32_t *)0x58100000U)

static uint64_t now(const sse_timer_t *device)
{
    uint32_t high = device->count_high;
    uint32_t low = device->count_low;
    if (high != device->count_high) {
        high++;  /* the low half wrapped between two reads, */
        low = 0; /* and a few ticks do not matter */
    }
    return (uint64_t)high << 32 | low;
}

void dtn_timer_start(uint32_t timer, uint32_t ticks)
{
    sse_timer_t *device = timers[timer];
    if ((SYSTEM_COUNTER & 1U) == 0) {
        SYSTEM_COUNTER = 1;
    }
    device->control = 0;
    /* A multiple of four ticks, which is whole nanoseconds: when it counts instructions, the emulated timer would wait
     * forever for a time between two of them. */
    uint64_t compare = (now(device) + ticks + 3) & ~(uint64_t)3;
    device->compare_low = (uint32_t)compare;
    device->compare_high = (uint32_t)(compare >> 32);
    dtn_interrupt_enable(interrupts[timer]);
    device->control = CONTROL_ENABLE;
}

void dtn_timer_stop(uint32_t timer)
{
    timers[timer]->control = 0;
    dtn_interrupt_unpend(interrupts[timer]);
}
