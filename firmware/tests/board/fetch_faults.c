/* Fetches by the hooks alone, with this file in the driver's place: what the command line names, and what came of it.
 */
#include "board.h"
#include "core.h"
#include "deuteron/driver.h"
#include "deuteron/port.h"
#include "fault_injection.h"
#include "fetch.h"
#include "semihost.h"

#include <stdbool.h>
#include <string.h>

enum { BYTES = 64, FETCHES = 3, LATENCY_NS = 60000000 };

int main(void);

static dtn_fetch_hooks_t hooks;
static uint8_t from[BYTES];
static uint8_t to[FETCHES][BYTES];

NeutronError dtn_set_fetch_hooks(const dtn_fetch_hooks_t *given)
{
    hooks = *given;
    return ENONE;
}

static void start_all(void)
{
    memset(to, 0, sizeof to);
    for (uint32_t i = 0; i < FETCHES; i++) {
        if (!hooks.copy(to[i], from, BYTES, i)) {
            dtn_semihost_print("not started\n");
        }
    }
}

static void print_all(void)
{
    for (uint32_t i = 0; i < FETCHES; i++) {
        dtn_semihost_print(memcmp(to[i], from, BYTES) == 0 ? " whole" : to[i][0] == 0 ? " nothing" : " some");
    }
    dtn_semihost_print("\n");
}

/* Waits for the channel, then for all others, as a run does that ends. */
static void wait_for(uint32_t channel)
{
    uint32_t start = dtn_port_ticks();
    bool good = hooks.wait(channel);
    uint32_t ticks = dtn_port_ticks() - start;
    dtn_semihost_print(good ? "fetched" : "failed");
    dtn_semihost_print(" in centiseconds ");
    dtn_semihost_print_number(ticks / (DTN_TICKS_HZ / 100));
    print_all();
    for (uint32_t i = 0; i < FETCHES; i++) {
        if (i != channel && hooks.wait(i) != (to[i][0] != 0)) {
            dtn_semihost_print("a wait says wrongly what came\n");
        }
    }
}

/* Fetches that are refused leave those under way alone. */
static void refuse(void)
{
    uint32_t state = dtn_interrupts_off();
    dtn_semihost_print(hooks.copy(to[0], from, BYTES, FETCHES) ? "started" : "refused");
    dtn_interrupts_restore(state);
    start_all();
    dtn_semihost_print(hooks.copy(to[0], from, BYTES, 0) ? ", started\n" : ", refused\n");
}

static void pass_time(void)
{
    for (volatile uint32_t i = 0; i < 3000000; i++) {
    }
}

int main(void)
{
    static char line[64];
    memset(from, 7, sizeof from);
    const char *word = dtn_semihost_command_line(line, sizeof line) ? strchr(line, ' ') : NULL;
    if (word == NULL || dtn_fetch_install(LATENCY_NS, 0) != ENONE) {
        return 2;
    }
    if (strcmp(word + 1, "masked") == 0) {
        start_all();
        uint32_t state = dtn_interrupts_off();
        wait_for(0);
        dtn_interrupts_restore(state);
        pass_time();
        dtn_semihost_print("then");
        print_all();
    } else if (strcmp(word + 1, "refused") == 0) {
        refuse();
        wait_for(FETCHES - 1);
    } else if (strcmp(word + 1, "none") != 0 && !dtn_faults_set(word + 1)) {
        return 2;
    }
    start_all();
    wait_for(FETCHES - 1);
    start_all();
    wait_for(FETCHES - 1);
    dtn_semihost_exit(0);
}
