/* The host's port with a data cache, of which a line stays dirty before an NPU reads, if the clean is forgotten: the NPU
 * gets the memory's old bytes, and the core still has its own. */
#define dtn_port_cache_clean clean_of_host
#define dtn_port_cache_invalidate invalidate_of_host
#include "../../firmware/port/host/port.c"
#undef dtn_port_cache_clean
#undef dtn_port_cache_invalidate

#include <string.h>

void device_forget_clean(bool forget);

enum { LINE_BYTES = 32 };

static bool forgets;
static void *dirty; /* a line whose bytes the memory does not have */
static uint8_t cached[LINE_BYTES];

void device_forget_clean(bool forget)
{
    forgets = forget;
}

/* The first call before an NPU starts is for its first input. */
void dtn_port_cache_clean(const void *data, size_t bytes)
{
    if (forgets && dirty == NULL && bytes >= LINE_BYTES) {
        dirty = (void *)(uintptr_t)data;
        memcpy(cached, dirty, LINE_BYTES);
        memset(dirty, 0xA5, LINE_BYTES);
    }
}

void dtn_port_cache_invalidate(void *data, size_t bytes)
{
    (void)data;
    (void)bytes;
    if (dirty != NULL) {
        memcpy(dirty, cached, LINE_BYTES);
        dirty = NULL;
    }
}
