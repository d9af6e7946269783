/* The port for the boards under `port/`: no heap, no NPU clock gate, and data caches that are off, unless a board turns
 * them on with cache.h. */
#include "deuteron/port.h"

#include "board.h"
#include "dma.h"
#if DTN_BOARD_CACHES
#include "cache.h"
#endif

bool dtn_port_init(void)
{
    return true; /* start-up has called dtn_board_start */
}

void dtn_port_deinit(void)
{
}

void *dtn_port_alloc(size_t size)
{
    (void)size;
    return NULL;
}

void dtn_port_free(void *memory)
{
    (void)memory;
}

#if DTN_DMA_APART
volatile uint32_t dtn_dma_ticks;
#endif

uint32_t dtn_port_ticks(void)
{
    /* The compiler must not move work across the call. */
    __asm__ volatile("" ::: "memory");
#if DTN_DMA_APART
    /* An interrupt with a copy between the two reads would be in only one of them. */
    uint32_t apart;
    uint32_t ticks;
    do {
        apart = dtn_dma_ticks;
        ticks = DTN_BOARD_COUNTER - apart;
    } while (apart != dtn_dma_ticks);
#else
    uint32_t ticks = DTN_BOARD_COUNTER;
#endif
    __asm__ volatile("" ::: "memory");
    return ticks;
}

void dtn_port_clock(bool on)
{
    (void)on;
}

void dtn_port_cache_clean(const void *data, size_t bytes)
{
#if DTN_BOARD_CACHES
    dtn_cache_clean(data, bytes);
#else
    (void)data;
    (void)bytes;
#endif
}

void dtn_port_cache_invalidate(void *data, size_t bytes)
{
#if DTN_BOARD_CACHES
    dtn_cache_invalidate(data, bytes);
#else
    (void)data;
    (void)bytes;
#endif
}
