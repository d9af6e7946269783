/*
 * Start of a port: copy this directory, then replace what the comments name. As it stands it is a correct port for a
 * chip without heap, counter or clock gate; it is built with the host tests so that it keeps compiling.
 */
#include "deuteron/port.h"

bool dtn_port_init(void)
{
    /* Enable the NPU's clock and power domain, and start the counter that dtn_port_ticks reads. */
    return true;
}

void dtn_port_deinit(void)
{
    /* Undo dtn_port_init. */
}

void *dtn_port_alloc(size_t size)
{
    /* No heap: callers pass context memory to neutronModelPrepare. With an RTOS, take from its heap, 16-byte aligned.
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
    /* Nothing without a data cache between the core and the NPU. */
    (void)data;
    (void)bytes;
}

void dtn_port_cache_invalidate(void *data, size_t bytes)
{
    /* Nothing without a data cache between the core and the NPU. */
    (void)data;
    (void)bytes;
}
