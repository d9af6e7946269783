/*
 * The copies of inputs and outputs by a DMA, in place of the library's defaults, which copy with the core. Needed only
 * where a DMA saves something. Link it as an object: deuteron/io.h says why. One copy at a time is made; a second is
 * refused (deuteron/driver.h, Concurrency).
 */
#include "deuteron/io.h"

#include <stdbool.h>
#include <string.h>

#include "deuteron/port.h"
#include "whole_lines.h"

/* What the DMA copies; no bytes when there is nothing to wait for. */
static whole_lines_t under_way;

/* Starts a copy from memory to memory; false when it cannot start. */
static bool dma_start(void *dst, const void *src, size_t size)
{
    /* Start the DMA instead. A few bytes are copied faster by the core: measure how many. */
    memcpy(dst, src, size);
    dtn_port_cache_clean(dst, size);
    return true;
}

/* Returns when the copy is done; false when it failed or took too long: nothing goes on copying then. */
static bool dma_wait(void)
{
    /* Sleep until the DMA's interrupt, with a limit; after that, stop the channel. */
    return true;
}

int32_t dtn_io_copy_start(void *dst, const void *src, size_t size)
{
    /* Where several threads copy, let no other in from here until `under_way` is set: mask interrupts, for example. */
    if (under_way.bytes != 0) {
        return DTN_IO_BUSY;
    }
    whole_lines_t lines = whole_lines(dst, src, size);
    if (lines.bytes == 0) {
        return 0;
    }
    under_way = lines;
    /* The DMA sees memory and not the cache, which may write a line back at any time unless it is clean. */
    dtn_port_cache_clean(lines.src, lines.bytes);
    dtn_port_cache_clean(lines.dst, lines.bytes);
    if (!dma_start(lines.dst, lines.src, lines.bytes)) {
        under_way.bytes = 0;
        return -1;
    }
    return 0;
}

int32_t dtn_io_copy_wait(void)
{
    if (under_way.bytes == 0) {
        return 0;
    }
    bool good = dma_wait();
    dtn_port_cache_invalidate(under_way.dst, under_way.bytes);
    under_way.bytes = 0;
    return good ? 0 : -1;
}

int32_t dtn_io_copy(void *dst, const void *src, size_t size)
{
    int32_t error = dtn_io_copy_start(dst, src, size);
    return error == 0 ? dtn_io_copy_wait() : error;
}
