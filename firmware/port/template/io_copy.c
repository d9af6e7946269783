/*
 * The copies of inputs and outputs by a DMA, in place of the library's defaults, which copy with the core. Needed only
 * where a DMA saves something. Link it as an object: deuteron/io.h says why.
 */
#include "deuteron/io.h"

#include <stdbool.h>
#include <string.h>

#include "deuteron/port.h"

static void *target;
static size_t target_bytes;

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
    /* The DMA sees memory and not the cache. A line at the end of `dst` may hold another's bytes, too: they must be in
     * memory before that line is dropped. */
    dtn_port_cache_clean(src, size);
    dtn_port_cache_clean(dst, size);
    target = dst;
    target_bytes = size;
    return dma_start(dst, src, size) ? 0 : -1;
}

int32_t dtn_io_copy_wait(void)
{
    bool good = dma_wait();
    dtn_port_cache_invalidate(target, target_bytes);
    return good ? 0 : -1;
}

int32_t dtn_io_copy(void *dst, const void *src, size_t size)
{
    int32_t error = dtn_io_copy_start(dst, src, size);
    return error == 0 ? dtn_io_copy_wait() : error;
}
