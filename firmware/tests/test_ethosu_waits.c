/* The waits of Arm's driver on a board's Ethos-U: concurrent takers, limits, and a start that is tried again; and its
 * counters of jobs.
 */
#include "deuteron/port.h"
#include "ethosu_driver.h"
#include "npu.h"
#include "pmu_ethosu.h"
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

/* Counters of an NPU that has power in a job alone. */

enum { EVENTS = 2 };

static bool has_power, counts_cycles;
static uint64_t npu_cycles;
static uint32_t npu_events[EVENTS], npu_types[EVENTS];

void ETHOSU_PMU_Enable(struct ethosu_driver *drv)
{
    CHECK(drv != NULL && !has_power, "counters are on between jobs");
    has_power = true;
}

void ETHOSU_PMU_Disable(struct ethosu_driver *drv)
{
    (void)drv;
    CHECK(has_power, "counters without power");
    has_power = false;
    counts_cycles = false;
}

void ETHOSU_PMU_Set_EVTYPER(struct ethosu_driver *drv, uint32_t num, enum ethosu_pmu_event_type type)
{
    (void)drv;
    CHECK(has_power && num < EVENTS, "counters without power, or one that there is not");
    npu_types[num] = type;
}

void ETHOSU_PMU_CYCCNT_Reset(struct ethosu_driver *drv)
{
    (void)drv;
    npu_cycles = 0;
}

void ETHOSU_PMU_EVCNTR_ALL_Reset(struct ethosu_driver *drv)
{
    (void)drv;
    npu_events[0] = npu_events[1] = 0;
}

void ETHOSU_PMU_CNTR_Enable(struct ethosu_driver *drv, uint32_t mask)
{
    (void)drv;
    CHECK_EQUAL(mask, ETHOSU_PMU_CCNT_Msk | 3);
    counts_cycles = has_power;
}

void ETHOSU_PMU_CNTR_Disable(struct ethosu_driver *drv, uint32_t mask)
{
    (void)drv;
    CHECK_EQUAL(mask, ETHOSU_PMU_CCNT_Msk | 3);
    counts_cycles = false;
}

/* A cycle passes with each look, as long as they are counted. */
uint64_t ETHOSU_PMU_Get_CCNTR(struct ethosu_driver *drv)
{
    (void)drv;
    npu_cycles += counts_cycles ? 1 : 0;
    return has_power ? npu_cycles : 0xDEAD;
}

uint32_t ETHOSU_PMU_Get_EVCNTR(struct ethosu_driver *drv, uint32_t num)
{
    (void)drv;
    return has_power ? npu_events[num] : 0xDEAD;
}

/* Jobs of 1,000 cycles, 600 of them active and 90 with multiplications, after others whose counts are still there. */
static void test_counters(void)
{
    static struct ethosu_driver driver;
    uint32_t what = 0, count = 0;
    for (uint32_t job = 0; job <= 2; job++) {
        CHECK(dtn_port_npu_cycles(&count) && count == 1000 * job, "%u cycles", (unsigned)count);
        CHECK(dtn_port_npu_counter(0, &what, &count) && what == 0x23 && count == 600 * job, "%u active", count);
        CHECK(dtn_port_npu_counter(1, &what, &count) && what == 0x30 && count == 90 * job, "%u multiply", count);
        CHECK(!dtn_port_npu_counter(2, &what, &count), "there is a third counter");
        npu_cycles = npu_events[0] = npu_events[1] = 77;
        ethosu_inference_begin(&driver, NULL);
        CHECK(counts_cycles && npu_types[0] == ETHOSU_PMU_NPU_ACTIVE && npu_types[1] == ETHOSU_PMU_MAC_ACTIVE,
              "other events are counted");
        npu_cycles += 1000;
        npu_events[0] += 600;
        npu_events[1] += 90;
        ethosu_inference_end(&driver, NULL);
        CHECK(!has_power, "counters are on between jobs");
    }
}

int main(void)
{
    test_counters();
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

    /* One of two takers gets the only slot. */
    give();
    other = take;
    CHECK_EQUAL(ethosu_semaphore_take(semaphore, 0), -1);
    CHECK_EQUAL(last_ticks, 1);
    give();
    take();
    CHECK_EQUAL(ethosu_semaphore_take(semaphore, 1), -1);

    /* A wait that could never end is refused. */
    off = true;
    CHECK_EQUAL(ethosu_semaphore_take(semaphore, ETHOSU_SEMAPHORE_WAIT_FOREVER), -1);
    give();
    CHECK_EQUAL(ethosu_semaphore_take(semaphore, ETHOSU_SEMAPHORE_WAIT_FOREVER), 0);
    return test_result();
}
