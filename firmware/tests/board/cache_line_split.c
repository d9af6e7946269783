/* The template's copies with a checked cache: each drop must be of whole lines and of this copy alone, and bytes copied
 * by the core must be written back. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "deuteron/driver.h"
#include "deuteron/io.h"
#include "deuteron/port.h"

#ifdef TRY_FETCH_HOOKS
#include "fetch_hooks.h"
#endif

enum { LINE = 32, AREA = 8 * LINE, GUARD = 2 * LINE };

static uint8_t space[AREA + LINE];
static uint8_t from[AREA];
static uint8_t *area; /* at a line's start */
static uint8_t *target;
static size_t target_bytes;
static size_t dropped;
static uint8_t cleaned[AREA]; /* by place in the area: written back since the copy started */
static int failures;

void dtn_port_cache_clean(const void *data, size_t bytes)
{
    const uint8_t *at = data;
    if (at >= area && at + bytes <= area + AREA) {
        memset(cleaned + (at - area), 1, bytes);
    }
}

void dtn_port_cache_invalidate(void *data, size_t bytes)
{
    uint8_t *at = data;
    failures += ((uintptr_t)at | bytes) % LINE != 0 || at < target || at + bytes > target + target_bytes;
    dropped += bytes;
}

#ifdef TRY_FETCH_HOOKS
static dtn_fetch_hooks_t hooks;

NeutronError dtn_set_fetch_hooks(const dtn_fetch_hooks_t *given)
{
    hooks = *given;
    return ENONE;
}

static bool start(void)
{
    return hooks.copy(target, from, (uint32_t)target_bytes, 0);
}

static bool finish(void)
{
    return hooks.wait(0);
}
#else
static bool start(void)
{
    return dtn_io_copy_start(target, from, target_bytes) == 0;
}

static bool finish(void)
{
    return dtn_io_copy_wait() == 0;
}
#endif

int main(void)
{
#ifdef TRY_FETCH_HOOKS
    (void)fetch_hooks_install();
#endif
    area = space + (0U - (uintptr_t)space) % LINE;
    for (size_t i = 0; i < AREA; i++) {
        from[i] = (uint8_t)(i + 1);
    }
    for (size_t offset = 0; offset < LINE; offset++) {
        for (target_bytes = 1; target_bytes <= 4 * LINE; target_bytes++) {
            memset(area, 0, AREA);
            memset(cleaned, 0, AREA);
            target = area + GUARD + offset;
            failures += !start();
            failures += target_bytes >= 2 * LINE && start(); /* the DMA has a line to copy: one copy at a time */
            failures += !finish();
            failures += memchr(cleaned + (target - area), 0, target_bytes) != NULL;
            failures += memcmp(target, from, target_bytes) != 0 || target[-1] != 0 || target[target_bytes] != 0;
        }
    }
    if (failures != 0 || dropped == 0) {
        printf("%d wrong copies or drops, %zu bytes dropped\n", failures, dropped);
    }
    return failures != 0 || dropped == 0;
}
