/* The timers: two CMSDK APB timers, which stop at 0 when there is nothing to reload. */
#include "timer.h"

#include "board.h"
#include "core.h"

typedef struct {
    volatile uint32_t ctrl;
    volatile uint32_t value;
    volatile uint32_t reload;
    volatile uint32_t int_clear;
} cmsdk_timer_t;
DTN_CHECK_OFFSET(cmsdk_timer_t, int_clear, 0xC);

enum { CTRL_ENABLE = 1, CTRL_INTERRUPT = 8 };

static cmsdk_timer_t *const timers[] = {(cmsdk_timer_t *)0x50000000U, (cmsdk_timer_t *)0x50001000U};
static const uint8_t interrupts[] = {3, 4};

void dtn_timer_start(uint32_t timer, uint32_t ticks)
{
    cmsdk_timer_t *device = timers[timer];
    device->ctrl = 0;
    device->reload = 0;
    device->value = ticks;
    dtn_interrupt_enable(interrupts[timer]);
    device->ctrl = CTRL_ENABLE | CTRL_INTERRUPT;
}

void dtn_timer_stop(uint32_t timer)
{
    timers[timer]->ctrl = 0;
    timers[timer]->int_clear = 1;
    dtn_interrupt_unpend(interrupts[timer]);
}
