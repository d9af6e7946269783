/*
 * Two threads at the hooks of port/cortex_m, where only one may copy: the other comes at the last moment before the
 * first keeps interrupts from coming, and between its start and its wait.
 */
#include "deuteron/driver.h"
#include "deuteron/io.h"
#include "deuteron/port.h"
#include "dma.h"
#include "fetch.h"
#include "port_core.h"
#include "sleep.h"
#include "test.h"
#include "timer.h"

enum { LARGE = 4096, SMALL = 16 };

static dtn_fetch_hooks_t hooks;
static bool off;
static void (*other)(void); /* what another thread does when it can */
static bool other_started;
static size_t other_bytes;

static uint8_t from[LARGE];
static uint8_t to[2][LARGE];

/* Copies of the DMA, without errors. */
static struct {
    uint32_t bytes;
    dtn_dma_done_t done;
    uint32_t starts;
} units[DTN_DMA_UNITS];

bool dtn_interrupts_are_off(void)
{
    return off;
}

uint32_t dtn_interrupts_off(void)
{
    void (*thread)(void) = other;
    other = NULL;
    if (thread != NULL) {
        thread();
    }
    uint32_t state = off;
    off = true;
    return state;
}

void dtn_interrupts_restore(uint32_t state)
{
    off = state != 0;
}

void dtn_dma_start(uint32_t unit, void *dst, const void *src, uint32_t bytes, dtn_dma_done_t done)
{
    (void)dst;
    (void)src;
    units[unit].bytes = bytes;
    units[unit].done = done;
    units[unit].starts++;
}

void dtn_dma_stop(uint32_t unit)
{
    units[unit].done = NULL;
}

void dtn_timer_start(uint32_t timer, uint32_t ticks)
{
    (void)timer;
    (void)ticks;
}

void dtn_timer_stop(uint32_t timer)
{
    (void)timer;
}

bool dtn_sleep_while(const volatile bool *busy, uint32_t ticks)
{
    (void)ticks;
    for (uint32_t unit = 0; unit < DTN_DMA_UNITS && *busy; unit++) {
        if (units[unit].done != NULL) {
            units[unit].done(units[unit].bytes);
        }
    }
    return !*busy;
}

NeutronError dtn_set_fetch_hooks(const dtn_fetch_hooks_t *given)
{
    hooks = *given;
    return ENONE;
}

static void copy_too(void)
{
    other_started = dtn_io_copy_start(to[1], from, other_bytes) == 0;
}

static void fetch_too(void)
{
    other_started = hooks.copy(to[1], from, LARGE, 0);
}

static void only_one_copies(size_t bytes, size_t others, uint32_t starts)
{
    units[DTN_DMA_IO].starts = 0;
    other = copy_too;
    other_bytes = others;
    bool started = dtn_io_copy_start(to[0], from, bytes) == 0;
    CHECK(started != other_started, "of %zu and %zu bytes, %s started", bytes, others, started ? "both" : "none");
    CHECK_EQUAL(units[DTN_DMA_IO].starts, starts);
    CHECK_EQUAL(dtn_io_copy(to[1], from, others), DTN_IO_BUSY);
    copy_too();
    CHECK(!other_started, "a copy of %zu bytes started before the one of %zu was waited for", others, bytes);
    CHECK_EQUAL(dtn_io_copy_wait(), 0);
    CHECK_EQUAL(dtn_io_copy(to[0], from, bytes), 0);
}

static void only_one_fetches(void)
{
    other = fetch_too;
    bool started = hooks.copy(to[0], from, LARGE, 0);
    CHECK(started != other_started, "%s started", started ? "both" : "none");
    CHECK_EQUAL(units[DTN_DMA_FETCH].starts, 1);
    fetch_too();
    CHECK(!other_started, "a fetch started before the channel's last was waited for");
    CHECK(hooks.wait(0), "the fetch failed");
    CHECK(hooks.copy(to[0], from, LARGE, 0) && hooks.wait(0), "the channel is not free again");
}

/* A copy in the place of a DMA, in an interrupt before or after the look at the counter. */
static uint32_t now;
static int copies_at; /* -1: before, 1: after */

static void copy_by_core(int at)
{
    enum { COPY_TICKS = 1000 };
    if (copies_at == at) {
        copies_at = 0;
        now += COPY_TICKS;
        dtn_dma_ticks += COPY_TICKS;
    }
}

uint32_t dtn_test_counter(void)
{
    copy_by_core(-1);
    uint32_t count = now++;
    copy_by_core(1);
    return count;
}

static void ticks_without_copies(int at)
{
    uint32_t before = dtn_port_ticks();
    copies_at = at;
    uint32_t between = dtn_port_ticks();
    uint32_t after = dtn_port_ticks();
    CHECK(between - before < 10 && after - between < 10, "%" PRIu32 " ticks, then %" PRIu32, between - before,
          after - between);
}

int main(void)
{
    ticks_without_copies(-1);
    ticks_without_copies(1);
    only_one_copies(LARGE, LARGE, 1);
    only_one_copies(SMALL, SMALL, 0);
    only_one_copies(LARGE, SMALL, 0);
    only_one_copies(SMALL, LARGE, 1);
    CHECK_EQUAL(dtn_fetch_install(0, 0), ENONE);
    only_one_fetches();
    return test_result();
}
