/*
 * Runs that pre-empt each other: the program in `dtn_bundle`, which fetches weights by DMA, and in an interrupt the one
 * in `urgent`, which fetches nothing, or the one in `greedy`, which fetches too. The command line names when the
 * interrupt comes; what is printed is what came of both.
 */
#include "board.h"
#include "core.h"
#include "deuteron/driver.h"
#include "deuteron/errors.h"
#include "deuteron/executor.h"
#include "deuteron/port.h"
#include "fetch.h"
#include "semihost.h"

#include <stdbool.h>
#include <string.h>

enum { LATENCY_NS = 50000, BYTES = 4096, OUTPUTS = 3, FAILING_WAIT = 2, PEND_TICK = 1 << 26, TICK_ON = 7 };

extern const dtn_bundle_t dtn_bundle, urgent, greedy;
extern const dtn_memory_t dtn_bundle_memories[], urgent_memories[], greedy_memories[];

int main(void);
void dtn_on_system_tick(void);
NeutronError __real_dtn_set_fetch_hooks(const dtn_fetch_hooks_t *hooks);
NeutronError __wrap_dtn_set_fetch_hooks(const dtn_fetch_hooks_t *hooks);

static dtn_executor_t program;
static dtn_executor_t interrupting;
static uint8_t expected[OUTPUTS][BYTES];
static uint8_t urgent_expected[BYTES];

/* The options of the command line. */
static volatile bool at_hooks;
static bool fails;

/* Results of the interrupt. */
static volatile bool inside;
static volatile uint32_t interrupts;
static volatile uint32_t wrong;
static volatile dtn_reason_t last_reason;

static dtn_fetch_hooks_t real;
static uint32_t waits;

void dtn_on_system_tick(void)
{
    inside = true;
    NeutronError error = dtn_executor_run(&interrupting, NULL, NULL);
    inside = false;
    bool right = error == ENONE && memcmp(dtn_executor_output(&interrupting, 0), urgent_expected, BYTES) == 0;
    last_reason = DTN_ERROR_REASON(error);
    wrong += right ? 0 : 1;
    interrupts++;
}

static void interrupt_now(void)
{
    if (at_hooks && !inside) {
        DTN_SCB->icsr = PEND_TICK;
        dtn_barrier();
    }
}

/* The interrupt comes while the DMA copies, and after a wait has failed but before the driver knows. */
static bool copy(void *dst, const void *src, uint32_t size, uint32_t channel)
{
    bool started = real.copy(dst, src, size, channel);
    interrupt_now();
    return started;
}

static bool wait(uint32_t channel)
{
    bool good = real.wait(channel) && !(fails && waits == FAILING_WAIT);
    waits++;
    interrupt_now();
    return good;
}

static const dtn_fetch_hooks_t watched = {copy, wait};

/* The hooks of the fetches' port, with these around them. */
NeutronError __wrap_dtn_set_fetch_hooks(const dtn_fetch_hooks_t *hooks)
{
    real = *hooks;
    return __real_dtn_set_fetch_hooks(&watched);
}

static void fill(void *input)
{
    uint8_t *bytes = (uint8_t *)input;
    for (uint32_t i = 0; i < BYTES; i++) {
        bytes[i] = (uint8_t)(i * 37 + i / 64);
    }
}

static NeutronError run(void)
{
    fill(dtn_executor_input(&program, 0));
    waits = 0;
    return dtn_executor_run(&program, NULL, NULL);
}

static void print(const char *what, uint32_t number)
{
    dtn_semihost_print(what);
    dtn_semihost_print_number(number);
}

/* Runs the program once and says what came of it and of the interrupts. */
static void try_once(void)
{
    for (uint32_t i = 0; i < OUTPUTS; i++) {
        memset((void *)(uintptr_t)dtn_executor_output(&program, i), 0, BYTES);
    }
    interrupts = 0;
    wrong = 0;
    uint32_t reason = (uint32_t)DTN_ERROR_REASON(run());
    uint32_t came = interrupts;
    bool good = true;
    for (uint32_t i = 0; i < OUTPUTS; i++) {
        good = good && memcmp(dtn_executor_output(&program, i), expected[i], BYTES) == 0;
    }
    print("reason ", reason);
    dtn_semihost_print(good ? ", right" : ", wrong");
    print("; interrupts ", at_hooks ? came : came > 3);
    print(", wrong ", wrong);
    print(", reason ", (uint32_t)last_reason);
    dtn_semihost_print("\n");
}

static bool start(const dtn_bundle_t *other, const dtn_memory_t *memories)
{
    if (neutronInit() != ENONE || dtn_fetch_install(LATENCY_NS, 0) != ENONE ||
        dtn_executor_init(&program, &dtn_bundle, dtn_bundle_memories) != ENONE ||
        dtn_executor_init(&interrupting, other, memories) != ENONE) {
        return false;
    }
    fill(dtn_executor_input(&interrupting, 0));
    if (run() != ENONE || dtn_executor_run(&interrupting, NULL, NULL) != ENONE) {
        return false;
    }
    for (uint32_t i = 0; i < OUTPUTS; i++) {
        memcpy(expected[i], dtn_executor_output(&program, i), BYTES);
    }
    memcpy(urgent_expected, dtn_executor_output(&interrupting, 0), BYTES);
    return true;
}

/* An interrupt at times that have nothing to do with the commands: it leaves the program a third of the time. */
static void tick(void)
{
    uint32_t before = dtn_port_ticks();
    (void)dtn_executor_run(&interrupting, NULL, NULL);
    uint32_t ticks = dtn_port_ticks() - before;
    DTN_SYSTICK->reload = ticks * (DTN_CORE_HZ / 1000000) / (DTN_TICKS_HZ / 1000000) * 3 / 2;
    DTN_SYSTICK->value = 0;
    DTN_SYSTICK->control = TICK_ON;
}

int main(void)
{
    static char line[64];
    const char *word = dtn_semihost_command_line(line, sizeof line) ? strchr(line, ' ') : NULL;
    bool greedy_one = word != NULL && strcmp(word + 1, "greedy") == 0;
    if (word == NULL || !start(greedy_one ? &greedy : &urgent, greedy_one ? greedy_memories : urgent_memories)) {
        return 2;
    }
    at_hooks = strcmp(word + 1, "tick") != 0;
    fails = strcmp(word + 1, "fails") == 0;
    if (!at_hooks) {
        tick();
    }
    try_once();
    DTN_SYSTICK->control = 0;
    fails = false;
    at_hooks = true;
    try_once();
    dtn_semihost_exit(0);
}
