/* The timers: two of the subsystem's, which compare its 64-bit system counter with a value. */
#include "timer.h"

#include "board.h"
#include "core.h"

typedef struct {
    uint32_t reserved[10];
    volatile uint32_t timer_value; /* signed ticks from now */
    volatile uint32_t control;
} sse_timer_t;
DTN_CHECK_OFFSET(sse_timer_t, control, 0x2C);

enum { CONTROL_ENABLE = 1 };

static sse_timer_t *const timers[] = {(sse_timer_t *)0x58000000U, (sse_timer_t *)0x58001000U};
static const uint8_t interrupts[] = {3, 4};

/* Control of the system counter, which must run for the timers to. */
#define SYSTEM_COUNTER (*(volatile uint32_t *)0x58100000U)

void dtn_timer_start(uint32_t timer, uint32_t ticks)
{
    sse_timer_t *device = timers[timer];
    SYSTEM_COUNTER |= 1U;
    device->control = 0;
    device->timer_value = ticks;
    dtn_interrupt_enable(interrupts[timer]);
    device->control = CONTROL_ENABLE;
}

void dtn_timer_stop(uint32_t timer)
{
    timers[timer]->control = 0;
    dtn_interrupt_unpend(interrupts[timer]);
}
