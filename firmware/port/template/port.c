/*
 * Start of a port: copy this directory, then replace the parts that the comments name. Unchanged, it is a correct port
 * for a chip without heap, counter, clock gate or data cache; see docs/guides/own-board.md.
 */
#include "deuteron/port.h"

#include <string.h>

/* The weights that memory.ld places in SRAM, and their place in the image. */
extern uint8_t __dtn_sram_start[], __dtn_sram_end[];
extern const uint8_t __dtn_sram_load[];

bool dtn_port_init(void)
{
    /* Enable the NPU's clock and power domain, and start the counter that dtn_port_ticks reads. */

    /* Remove this if the start-up code copies `.dtn_sram` like `.data`. */
    memcpy(__dtn_sram_start, __dtn_sram_load, (size_t)(__dtn_sram_end - __dtn_sram_start));
    return true;
}

void dtn_port_deinit(void)
{
    /* Undo dtn_port_init. */
}

void *dtn_port_alloc(size_t size)
{
    /* No heap: callers pass context memory to neutronModelPrepare. With an RTOS, allocate from its heap, 16-byte
     * aligned.
     */
    (void)size;
    return NULL;
}

void dtn_port_free(void *memory)
{
    (void)memory;
}

uint32_t dtn_port_ticks(void)
{
    /* A free-running 32-bit counter, such as a Cortex-M's DWT->CYCCNT; without one all profile times are 0. */
    return 0;
}

void dtn_port_clock(bool on)
{
    /* Gate the NPU's clock. */
    (void)on;
}

void dtn_port_cache_clean(const void *data, size_t bytes)
{
    /* Nothing without a data cache. With one, for every line with one of the bytes: SCB_CleanDCache_by_Addr. */
    (void)data;
    (void)bytes;
}

void dtn_port_cache_invalidate(void *data, size_t bytes)
{
    /* Nothing without a data cache. With one, for every line with one of the bytes: SCB_InvalidateDCache_by_Addr.
     */
    (void)data;
    (void)bytes;
}
