/**
 * @file
 * The deadline timer by the system timer of the core, which counts 24 bits down to 0: definitions, for the `timer.c`
 * of a board without fetches. Its `board.h` has DTN_TIMER_CYCLES, core cycles of a tick, at most 2^16.
 */
#include "timer.h"

#include "board.h"
#include "core.h"

enum { CONTROL_ON = 7 /* enabled, with interrupt, by the clock of the core */ };
enum { MOST_TICKS = 0x1000000 / DTN_TIMER_CYCLES };

#define ICSR_CLEAR_SYSTICK (UINT32_C(1) << 25)

static uint32_t remaining; /* ticks after those that the counter has */

void dtn_on_timer1(void);
void dtn_on_system_tick(void);

static void count_down(void)
{
    uint32_t ticks = remaining < MOST_TICKS ? remaining : MOST_TICKS;
    remaining -= ticks;
    DTN_SYSTICK->control = 0;
    DTN_SYSTICK->reload = ticks * DTN_TIMER_CYCLES - 1;
    DTN_SYSTICK->value = 0;
    DTN_SYSTICK->control = CONTROL_ON;
}

void dtn_on_system_tick(void)
{
    if (remaining != 0) {
        count_down();
    } else {
        dtn_on_timer1();
    }
}

void dtn_timer_start(uint32_t timer, uint32_t ticks)
{
    (void)timer;
    remaining = ticks;
    count_down();
}

void dtn_timer_stop(uint32_t timer)
{
    (void)timer;
    DTN_SYSTICK->control = 0;
    DTN_SCB->icsr = ICSR_CLEAR_SYSTICK;
    dtn_barrier();
}
