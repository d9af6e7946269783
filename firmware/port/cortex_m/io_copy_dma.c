/*
 * Copies of inputs and outputs by DMA, while the core sleeps. Linking this object replaces the defaults of
 * deuteron/io.h; it must be an object on the command line, because a linker loads from an archive only undefined
 * symbols.
 */
#include "board.h"
#include "core.h"
#include "deuteron/io.h"
#include "dma.h"
#include "sleep.h"

#include <stdbool.h>
#include <string.h>

/* Copies below this size use the core: starting the DMA and handling its interrupt costs about as many
 * instructions. */
#ifndef DTN_IO_DMA_BYTES
#define DTN_IO_DMA_BYTES 256
#endif

/* Time limit of a copy, in milliseconds; up to 60 s. */
#ifndef DTN_IO_TIMEOUT_MS
#define DTN_IO_TIMEOUT_MS 100
#endif

static volatile bool taken; /* from a start until the wait for it returns */
static volatile bool busy;  /* the DMA is copying */
static volatile bool failed;
static size_t wanted;

static void done(uint32_t moved)
{
    failed = moved != wanted;
    busy = false;
}

/* Reserves the copies for the caller; false if they are in use. */
static bool reserve(void)
{
    uint32_t state = dtn_interrupts_off();
    bool is_free = !taken; /* no other thread can reserve them now */
    taken = true;
    dtn_interrupts_restore(state);
    return is_free;
}

int32_t dtn_io_copy_start(void *dst, const void *src, size_t size)
{
    if (!reserve()) {
        return DTN_IO_BUSY;
    }
    failed = false;
    if (size < DTN_IO_DMA_BYTES) {
        memcpy(dst, src, size);
        return 0;
    }
    wanted = size;
    busy = true;
    dtn_dma_start(DTN_DMA_IO, dst, src, (uint32_t)size, done);
    return 0;
}

int32_t dtn_io_copy_wait(void)
{
    if (!taken) {
        return 0;
    }
    if (!dtn_sleep_while(&busy, DTN_IO_TIMEOUT_MS * (DTN_TIMER_HZ / 1000))) {
        dtn_dma_stop(DTN_DMA_IO);
        busy = false;
        failed = true;
    }
    int32_t error = failed ? -1 : 0;
    taken = false;
    return error;
}

int32_t dtn_io_copy(void *dst, const void *src, size_t size)
{
    int32_t error = dtn_io_copy_start(dst, src, size);
    return error == 0 ? dtn_io_copy_wait() : error;
}
