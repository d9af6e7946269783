/*
 * Fetches of weights from a slow memory while the core computes: the `copy` and `wait` hooks of the driver. Needed only
 * for models with a prefetch area, and there only for speed: the driver's default hooks copy with the core. These serve
 * one run at a time (deuteron/driver.h, Concurrency).
 */
#include "fetch_hooks.h"

#include <stdbool.h>
#include <string.h>

#include "cache_line_split.h"
#include "deuteron/driver.h"
#include "deuteron/microcode.h"
#include "deuteron/port.h"

/* The copies of the DMA; no bytes if there is nothing to wait for. */
static dma_copy_t outstanding[DTN_CHANNELS];

/* Starts a copy on a channel of the DMA, 0 to 3. */
static void dma_start(uint32_t channel, void *dst, const void *src, size_t size)
{
    /* Start the DMA instead; queue if it has fewer channels. */
    (void)channel;
    memcpy(dst, src, size);
    dtn_port_cache_clean(dst, size);
}

/* Returns when the channel's copy is complete; false if it failed or timed out; the copy must have stopped. */
static bool dma_wait(uint32_t channel)
{
    /* Sleep until the DMA's interrupt, with a time limit; then stop the channel. */
    (void)channel;
    return true;
}

static bool copy(void *dst, const void *src, uint32_t size, uint32_t channel)
{
    /* With several threads, exclude others from here until `outstanding` is set: mask interrupts, for example. */
    if (outstanding[channel].bytes != 0) {
        return false; /* used by another run */
    }
    dma_copy_t rest = copy_partial_lines(dst, src, size);
    outstanding[channel] = rest;
    if (rest.bytes != 0) {
        /* The DMA bypasses the cache, which may write back a dirty line at any time. */
        dtn_port_cache_clean(rest.src, rest.bytes);
        dtn_port_cache_clean(rest.dst, rest.bytes);
        dma_start(channel, rest.dst, rest.src, rest.bytes);
    }
    return true;
}

static bool wait(uint32_t channel)
{
    if (outstanding[channel].bytes == 0) {
        return true;
    }
    bool good = dma_wait(channel);
    dtn_port_cache_invalidate(outstanding[channel].dst, outstanding[channel].bytes);
    outstanding[channel].bytes = 0;
    return good;
}

NeutronError fetch_hooks_install(void)
{
    dtn_fetch_hooks_t hooks = {copy, wait};
    return dtn_set_fetch_hooks(&hooks);
}
