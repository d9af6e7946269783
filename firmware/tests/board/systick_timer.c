/* The deadline timer by the system timer: a time that is longer than the counter's 24 bits, and one that is stopped.
 * The core does not sleep: an emulated system timer is a period late if it does. */
#define DTN_TIMER_CYCLES 16

#include "systick_timer.h"

#include "deuteron/port.h"
#include "semihost.h"

enum { LONG = 5 * MOST_TICKS / 2, SHORT = 1000 };

int main(void);

static volatile uint32_t expired;

void dtn_on_timer1(void)
{
    dtn_timer_stop(DTN_TIMER_DEADLINE);
    expired++;
}

int main(void)
{
    uint32_t start = dtn_port_ticks();
    dtn_timer_start(DTN_TIMER_DEADLINE, LONG);
    while (expired == 0) {
    }
    dtn_semihost_print_hex((dtn_port_ticks() - start) / DTN_TIMER_CYCLES - LONG);
    dtn_timer_start(DTN_TIMER_DEADLINE, SHORT);
    dtn_timer_stop(DTN_TIMER_DEADLINE);
    for (start = dtn_port_ticks(); dtn_port_ticks() - start < 4 * SHORT * DTN_TIMER_CYCLES;) {
    }
    dtn_semihost_print(" ");
    dtn_semihost_print_hex(expired);
    dtn_semihost_exit(0);
}
