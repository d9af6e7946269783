/*
 * The fetches of weights from a slow memory while the core computes: the `copy` and `wait` hooks of the driver. Needed
 * only for models with a prefetch area, and there only for speed: the driver's own hooks copy with the core. These
 * serve one run at a time (deuteron/driver.h, Concurrency).
 */
#include "fetch_hooks.h"

#include <stdbool.h>
#include <string.h>

#include "deuteron/driver.h"
#include "deuteron/microcode.h"
#include "deuteron/port.h"
#include "whole_lines.h"

/* What the DMA copies; no bytes when there is nothing to wait for. */
static whole_lines_t under_way[DTN_CHANNELS];

/* Starts a copy on a channel of the DMA, 0 to 3. */
static void dma_start(uint32_t channel, void *dst, const void *src, size_t size)
{
    /* Start the DMA instead; where it has fewer channels, queue. */
    (void)channel;
    memcpy(dst, src, size);
    dtn_port_cache_clean(dst, size);
}

/* Returns when the channel's copy is done; false when it failed or took too long: nothing goes on copying then. */
static bool dma_wait(uint32_t channel)
{
    /* Sleep until the DMA's interrupt, with a limit; after that, stop the channel. */
    (void)channel;
    return true;
}

static bool copy(void *dst, const void *src, uint32_t size, uint32_t channel)
{
    /* Where several threads fetch, let no other in from here until `under_way` is set: mask interrupts, for example. */
    if (under_way[channel].bytes != 0) {
        return false; /* another run's */
    }
    whole_lines_t lines = whole_lines(dst, src, size);
    under_way[channel] = lines;
    if (lines.bytes != 0) {
        /* The DMA sees memory and not the cache, which may write a line back at any time unless it is clean. */
        dtn_port_cache_clean(lines.src, lines.bytes);
        dtn_port_cache_clean(lines.dst, lines.bytes);
        dma_start(channel, lines.dst, lines.src, lines.bytes);
    }
    return true;
}

static bool wait(uint32_t channel)
{
    if (under_way[channel].bytes == 0) {
        return true;
    }
    bool good = dma_wait(channel);
    dtn_port_cache_invalidate(under_way[channel].dst, under_way[channel].bytes);
    under_way[channel].bytes = 0;
    return good;
}

NeutronError fetch_hooks_install(void)
{
    dtn_fetch_hooks_t hooks = {copy, wait};
    return dtn_set_fetch_hooks(&hooks);
}
