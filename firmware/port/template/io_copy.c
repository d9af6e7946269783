/*
 * Copies of inputs and outputs by a DMA, replacing the library's defaults, which copy with the core. Needed only if a
 * DMA saves time. Link it as an object (see deuteron/io.h). It makes one copy at a time, and rejects a second one
 * (deuteron/driver.h, Concurrency).
 */
#include "deuteron/io.h"

#include <stdbool.h>
#include <string.h>

#include "cache_line_split.h"
#include "deuteron/port.h"

/* The copy of the DMA; no bytes if there is nothing to wait for. */
static dma_copy_t outstanding;

/* Starts a copy from memory to memory; false if it cannot start. */
static bool dma_start(void *dst, const void *src, size_t size)
{
    /* Start the DMA instead. The core copies few bytes faster: measure the limit. */
    memcpy(dst, src, size);
    dtn_port_cache_clean(dst, size);
    return true;
}

/* Returns when the copy is complete; false if it failed or timed out; the copy must have stopped. */
static bool dma_wait(void)
{
    /* Sleep until the DMA's interrupt, with a time limit; then stop the channel. */
    return true;
}

int32_t dtn_io_copy_start(void *dst, const void *src, size_t size)
{
    /* With several threads, exclude others from here until `outstanding` is set: mask interrupts, for example. */
    if (outstanding.bytes != 0) {
        return DTN_IO_BUSY;
    }
    dma_copy_t rest = copy_partial_lines(dst, src, size);
    if (rest.bytes == 0) {
        return 0;
    }
    outstanding = rest;
    /* The DMA bypasses the cache, which may write back a dirty line at any time. */
    dtn_port_cache_clean(rest.src, rest.bytes);
    dtn_port_cache_clean(rest.dst, rest.bytes);
    if (!dma_start(rest.dst, rest.src, rest.bytes)) {
        outstanding.bytes = 0;
        return -1;
    }
    return 0;
}

int32_t dtn_io_copy_wait(void)
{
    if (outstanding.bytes == 0) {
        return 0;
    }
    bool good = dma_wait();
    dtn_port_cache_invalidate(outstanding.dst, outstanding.bytes);
    outstanding.bytes = 0;
    return good ? 0 : -1;
}

int32_t dtn_io_copy(void *dst, const void *src, size_t size)
{
    int32_t error = dtn_io_copy_start(dst, src, size);
    return error == 0 ? dtn_io_copy_wait() : error;
}
