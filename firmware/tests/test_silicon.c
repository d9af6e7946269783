/* What Arm's driver waits by on a board's own Ethos-U: takers at the same time, limits, and a start that is tried
 * again.
 */
#include "ethosu_driver.h"
#include "npu.h"
#include "port_core.h"
#include "sleep.h"
#include "test.h"
#include "timer.h"

static bool off;
static void (*other)(void); /* what another thread or an interrupt does when it can */
static void *semaphore;
static uint32_t sleeps, last_ticks;

static void let_other(void)
{
    void (*thread)(void) = other;
    other = NULL;
    if (thread != NULL) {
        thread();
    }
}

bool dtn_interrupts_are_off(void)
{
    return off;
}

uint32_t dtn_interrupts_off(void)
{
    let_other();
    uint32_t state = off;
    off = true;
    return state;
}

void dtn_interrupts_restore(uint32_t state)
{
    off = state != 0;
}

void dtn_interrupt_enable(uint32_t number)
{
    CHECK_EQUAL(number, DTN_ETHOSU_INTERRUPT);
}

/* Ends by what happens meanwhile, or by its limit. */
bool dtn_sleep_while(const volatile bool *busy, uint32_t ticks)
{
    if (off) {
        return !*busy;
    }
    sleeps++;
    last_ticks = ticks;
    let_other();
    return !*busy;
}

/* Arm's driver, as far as it matters here: a start that fails leaves the semaphore of all NPUs. */
static bool start_fails;

void ethosu_irq_handler(struct ethosu_driver *drv)
{
    (void)drv;
}

const volatile uint8_t DTN_ETHOSU_MARK;

int(ethosu_init)(struct ethosu_driver *drv, void *const base_address, const void *fast_memory,
                 const size_t fast_memory_size, uint32_t secure_enable, uint32_t privilege_enable)
{
    static void *of_all;
    (void)base_address, (void)fast_memory, (void)fast_memory_size, (void)secure_enable, (void)privilege_enable;
    of_all = of_all == NULL ? ethosu_semaphore_create() : of_all;
    drv->semaphore = ethosu_semaphore_create();
    if (of_all == NULL || drv->semaphore == NULL || start_fails) {
        if (drv->semaphore != NULL) {
            ethosu_semaphore_destroy(drv->semaphore);
        }
        return -1;
    }
    semaphore = drv->semaphore;
    return 0;
}

static void give(void)
{
    CHECK_EQUAL(ethosu_semaphore_give(semaphore), 0);
}

static void take(void)
{
    CHECK_EQUAL(ethosu_semaphore_take(semaphore, 1), 0);
}

int main(void)
{
    for (int i = 0; i < 3; i++) {
        start_fails = true;
        CHECK(!dtn_npu_start(), "a start that fails did not");
    }
    start_fails = false;
    CHECK(dtn_npu_start(), "a failed start cannot be tried again");

    /* An interrupt gives while the taker sleeps, or just before it looks. */
    other = NULL;
    CHECK_EQUAL(ethosu_semaphore_take(semaphore, 5), -1);
    CHECK(sleeps == 1 && last_ticks == 5 * (DTN_TIMER_HZ / 1000) + 1, "%u sleeps, %u ticks", (unsigned)sleeps,
          (unsigned)last_ticks);
    other = give;
    take();
    CHECK_EQUAL(sleeps, 1);
    CHECK_EQUAL(ethosu_semaphore_take(semaphore, UINT64_C(1) << 40), -1);
    CHECK_EQUAL(last_ticks, DTN_TIMER_MAX_TICKS);

    /* Of two takers one gets the only place, and the other none. */
    give();
    other = take;
    CHECK_EQUAL(ethosu_semaphore_take(semaphore, 0), -1);
    CHECK_EQUAL(last_ticks, 1);
    give();
    take();
    CHECK_EQUAL(ethosu_semaphore_take(semaphore, 1), -1);

    /* What would never come is not waited for. */
    off = true;
    CHECK_EQUAL(ethosu_semaphore_take(semaphore, ETHOSU_SEMAPHORE_WAIT_FOREVER), -1);
    give();
    CHECK_EQUAL(ethosu_semaphore_take(semaphore, ETHOSU_SEMAPHORE_WAIT_FOREVER), 0);
    return test_result();
}
