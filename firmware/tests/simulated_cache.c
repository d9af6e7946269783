#include "simulated_cache.h"

#include <string.h>

#include "deuteron/port.h"
#include "test.h"

enum { LINES = CACHED_BYTES / CACHED_LINE };

uint8_t cached_seen[CACHED_BYTES] __attribute__((aligned(CACHED_LINE)));
uint8_t cached_held[CACHED_BYTES];
size_t cached_left_out, cached_calls[CACHED_KINDS];

/* The bytes that the cache read from the memories, or wrote there: a line that differs for the core is dirty. */
static uint8_t fetched[CACHED_BYTES];

static const cached_kind_t *kinds;
static size_t kind_count;
static bool has_run, is_on_core;

static void write_back(size_t line)
{
    const size_t at = line * CACHED_LINE;
    if (memcmp(cached_seen + at, fetched + at, CACHED_LINE) != 0) {
        memcpy(cached_held + at, cached_seen + at, CACHED_LINE);
        memcpy(fetched + at, cached_seen + at, CACHED_LINE);
    }
}

static void drop(size_t line)
{
    const size_t at = line * CACHED_LINE;
    memcpy(cached_seen + at, cached_held + at, CACHED_LINE);
    memcpy(fetched + at, cached_held + at, CACHED_LINE);
}

void cached_kinds(const cached_kind_t *table, size_t count)
{
    kinds = table;
    kind_count = count;
    cached_left_out = count;
    memset(cached_calls, 0, sizeof cached_calls);
}

void cached_reset(void)
{
    memset(cached_held, 0xEE, sizeof cached_held);
    memset(fetched, 0xEE, sizeof fetched);
    memset(cached_seen, 0, sizeof cached_seen);
    has_run = false;
}

void cached_run(bool on_core)
{
    has_run = false;
    is_on_core = on_core;
}

uint8_t *cached_there(void)
{
    return is_on_core ? cached_seen : cached_held;
}

void cached_npu_ran(void)
{
    for (size_t line = 0; line < LINES && !is_on_core; line++) {
        write_back(line); /* the core has written nothing since it started */
    }
    has_run = true;
}

bool cached_has_run(void)
{
    return has_run;
}

size_t cached_at(const void *address)
{
    const uintptr_t at = (uintptr_t)address - (uintptr_t)cached_seen;
    return at < CACHED_BYTES ? (size_t)at : CACHED_BYTES;
}

static void cache(cached_action_t action, const void *data, size_t bytes)
{
    const size_t part = cached_at(data);
    size_t kind = 0;
    while (kind < kind_count &&
           (kinds[kind].action != action || kinds[kind].part != part || kinds[kind].after != has_run)) {
        kind++;
    }
    const bool is_right = kind < kind_count && bytes > 0 && bytes <= CACHED_BYTES - part;
    CHECK(is_right, "a call for %u bytes at %u that is no kind", (unsigned)bytes, (unsigned)part);
    if (!is_right) {
        return;
    }
    cached_calls[kind]++;
    for (size_t line = part / CACHED_LINE; kind != cached_left_out && line <= (part + bytes - 1) / CACHED_LINE;
         line++) {
        if (action == CLEAN) {
            write_back(line);
        } else {
            drop(line);
        }
    }
}

void dtn_port_cache_clean(const void *data, size_t bytes)
{
    cache(CLEAN, data, bytes);
}

void dtn_port_cache_invalidate(void *data, size_t bytes)
{
    cache(INVALIDATE, data, bytes);
}

bool dtn_port_init(void)
{
    return true;
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

uint32_t dtn_port_ticks(void)
{
    return 0;
}

void dtn_port_clock(bool on)
{
    (void)on;
}
