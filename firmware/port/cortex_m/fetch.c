#include "fetch.h"

#include <stdbool.h>

#include "board.h"
#include "core.h"
#include "deuteron/driver.h"
#include "deuteron/microcode.h"
#include "dma.h"
#include "sleep.h"
#include "timer.h"

/* The last fetch of a channel. */
typedef struct {
    void *dst;
    const void *src;
    uint32_t bytes;
    uint32_t ticks; /* of the flash */
    bool taken;     /* from the copy hook until the wait hook returns */
    volatile bool busy;
    volatile bool failed;
} fetch_t;

static fetch_t fetches[DTN_CHANNELS];

/* Ring buffer of channels with busy fetches, in the flash's order. Changed with interrupts off. */
static uint32_t queue[DTN_CHANNELS];
static uint32_t first;
static uint32_t queued;

/* The flash. */
static uint32_t latency_ticks;
static uint32_t rate;

void dtn_on_timer0(void);
static void begin(void);

static uint32_t at_most(uint64_t ticks)
{
    return ticks > DTN_TIMER_MAX_TICKS ? DTN_TIMER_MAX_TICKS : (uint32_t)ticks;
}

static uint32_t flash_ticks(uint32_t bytes)
{
    uint64_t transfer = rate == 0 ? 0 : (uint64_t)bytes * DTN_TIMER_HZ / rate;
    return at_most(latency_ticks + transfer);
}

static void done(uint32_t moved)
{
    fetch_t *fetch = &fetches[queue[first]];
    fetch->failed = moved != fetch->bytes;
    fetch->busy = false;
    first = (first + 1) % DTN_CHANNELS;
    queued--;
    begin();
}

static void move(void)
{
    const fetch_t *fetch = &fetches[queue[first]];
    dtn_dma_start(DTN_DMA_FETCH, fetch->dst, fetch->src, fetch->bytes, done);
}

/* Starts the first fetch of the queue. */
static void begin(void)
{
    if (queued == 0) {
        return;
    }
    uint32_t ticks = fetches[queue[first]].ticks;
    if (ticks == 0) {
        move();
    } else {
        dtn_timer_start(DTN_TIMER_FLASH, ticks);
    }
}

void dtn_on_timer0(void)
{
    dtn_timer_stop(DTN_TIMER_FLASH);
    move();
}

static void stop_all(void)
{
    uint32_t state = dtn_interrupts_off();
    dtn_timer_stop(DTN_TIMER_FLASH);
    dtn_dma_stop(DTN_DMA_FETCH);
    for (uint32_t i = 0; i < DTN_CHANNELS; i++) {
        fetches[i].failed = fetches[i].failed || fetches[i].busy;
        fetches[i].busy = false;
    }
    queued = 0;
    dtn_interrupts_restore(state);
}

/* All queued fetches may precede this one. */
static uint32_t time_limit(void)
{
    uint64_t ticks = (uint64_t)DTN_FETCH_TIMEOUT_MS * (DTN_TIMER_HZ / 1000);
    for (uint32_t i = 0; i < DTN_CHANNELS; i++) {
        ticks += fetches[i].busy ? fetches[i].ticks : 0;
    }
    return at_most(ticks);
}

static bool wait(uint32_t channel)
{
    fetch_t *fetch = &fetches[channel];
    if (!dtn_sleep_while(&fetch->busy, time_limit())) {
        stop_all();
    }
    bool good = !fetch->failed;
    fetch->taken = false;
    return good;
}

static bool copy(void *dst, const void *src, uint32_t size, uint32_t channel)
{
    /* No wait is possible here, or another run uses the channel: only this run fails. */
    if (dtn_interrupts_are_off()) {
        return false;
    }
    uint32_t state = dtn_interrupts_off();
    bool is_free = !fetches[channel].taken; /* no other thread can take it now */
    if (is_free) {
        fetches[channel] = (fetch_t){dst, src, size, flash_ticks(size), true, true, false};
        queue[(first + queued) % DTN_CHANNELS] = channel;
        queued++;
        if (queued == 1) {
            begin();
        }
    }
    dtn_interrupts_restore(state);
    return is_free;
}

NeutronError dtn_fetch_install(uint32_t latency_ns, uint32_t bytes_per_second)
{
    dtn_fetch_hooks_t hooks = {copy, wait};
    latency_ticks = at_most((uint64_t)latency_ns * (DTN_TIMER_HZ / 1000) / 1000000);
    rate = bytes_per_second;
    return dtn_set_fetch_hooks(&hooks);
}
