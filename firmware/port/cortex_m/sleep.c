#include "sleep.h"

#include "board.h"
#include "core.h"
#include "timer.h"

/* False if the board's counter may stand still while the core sleeps: a wait that is measured must not sleep. */
#if defined DTN_PROFILING && DTN_PROFILING && defined DTN_COUNTER_STOPS_IN_SLEEP
enum { MAY_SLEEP = 0 };
#else
enum { MAY_SLEEP = 1 };
#endif

static volatile bool expired;

void dtn_on_timer1(void);

void dtn_on_timer1(void)
{
    dtn_timer_stop(DTN_TIMER_DEADLINE);
    expired = true;
}

bool dtn_sleep_while(const volatile bool *busy, uint32_t ticks)
{
    if (!*busy) {
        return true; /* the usual case for short copies: no timer is needed */
    }
    if (dtn_interrupts_are_off()) {
        return false; /* neither the end nor the deadline would be noticed */
    }
    expired = false;
    dtn_timer_start(DTN_TIMER_DEADLINE, ticks);
    while (*busy && !expired) {
        /* Interrupts stay pending between the test and the sleep, which they end: none is missed. */
        uint32_t state = dtn_interrupts_off();
        if (MAY_SLEEP && *busy && !expired) {
            dtn_sleep();
        }
        dtn_interrupts_restore(state);
    }
    dtn_timer_stop(DTN_TIMER_DEADLINE);
    return !*busy;
}
