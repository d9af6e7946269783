/**
 * @file
 * Timers of boards with two CMSDK APB timers, which stop at 0 without a reload value: definitions, for the `timer.c` of
 * such a board. Its `board.h` has DTN_BOARD_CMSDK_TIMERS, addresses, and DTN_BOARD_CMSDK_INTERRUPTS.
 */
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

static const uintptr_t timers[] = DTN_BOARD_CMSDK_TIMERS;
static const uint8_t interrupts[] = DTN_BOARD_CMSDK_INTERRUPTS;

static cmsdk_timer_t *device_of(uint32_t timer)
{
    return (cmsdk_timer_t *)timers[timer];
}

void dtn_timer_start(uint32_t timer, uint32_t ticks)
{
    cmsdk_timer_t *device = device_of(timer);
    device->ctrl = 0;
    device->reload = 0;
    device->value = ticks;
    dtn_interrupt_enable(interrupts[timer]);
    device->ctrl = CTRL_ENABLE | CTRL_INTERRUPT;
}

void dtn_timer_stop(uint32_t timer)
{
    device_of(timer)->ctrl = 0;
    device_of(timer)->int_clear = 1;
    dtn_interrupt_unpend(interrupts[timer]);
}
