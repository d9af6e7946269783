#include "fault_injection.h"

#include <stdint.h>
#include <string.h>

#include "board.h"
#include "core.h"
#include "dma.h"

typedef enum { NONE, FAIL, PARTIAL, NEVER, LATE } kind_t;

/* The requested fault; `countdown` copies precede it. */
static kind_t requested;
static uint32_t requested_unit;
static uint32_t countdown;
static uint32_t delay_us;

/* The copy that waits for the system tick, to fail or to start late; `done` is NULL if there is none. */
static struct {
    void *dst;
    const void *src;
    uint32_t bytes;
    dtn_dma_done_t done;
} held;

enum { TICK_STOPPED = 0, TICK_WITH_INTERRUPT = 7, TICK_MAX = 0xFFFFFF, SOON_US = 10 };

/* The linker's names of the wrapped functions and their wrappers. */
void __real_dtn_dma_start(uint32_t unit, void *dst, const void *src, uint32_t bytes, dtn_dma_done_t done);
void __real_dtn_dma_stop(uint32_t unit);
void __wrap_dtn_dma_start(uint32_t unit, void *dst, const void *src, uint32_t bytes, dtn_dma_done_t done);
void __wrap_dtn_dma_stop(uint32_t unit);
void dtn_on_system_tick(void);

static void tick_after(uint32_t us)
{
    uint32_t ticks = us * (DTN_CORE_HZ / 1000000);
    DTN_SYSTICK->reload = ticks > TICK_MAX ? TICK_MAX : ticks;
    DTN_SYSTICK->value = 0;
    dtn_barrier(); /* the handler sees the copy */
    DTN_SYSTICK->control = TICK_WITH_INTERRUPT;
}

void dtn_on_system_tick(void)
{
    DTN_SYSTICK->control = TICK_STOPPED;
    dtn_dma_done_t done = held.done;
    held.done = NULL;
    if (done == NULL) {
        return;
    }
    if (requested == LATE) {
        __real_dtn_dma_start(requested_unit, held.dst, held.src, held.bytes, done);
    } else {
        done(0);
    }
}

void __wrap_dtn_dma_start(uint32_t unit, void *dst, const void *src, uint32_t bytes, dtn_dma_done_t done)
{
    bool hit = requested != NONE && unit == requested_unit && countdown-- == 0;
    if (!hit) {
        __real_dtn_dma_start(unit, dst, src, bytes, done);
        return;
    }
    switch (requested) {
    case PARTIAL:
        __real_dtn_dma_start(unit, dst, src, bytes / 2, done);
        break;
    case FAIL:
    case LATE:
        held.dst = dst;
        held.src = src;
        held.bytes = bytes;
        held.done = done;
        tick_after(requested == LATE ? delay_us : SOON_US);
        break;
    default:
        break;
    }
}

void __wrap_dtn_dma_stop(uint32_t unit)
{
    if (unit == requested_unit) {
        DTN_SYSTICK->control = TICK_STOPPED;
        held.done = NULL;
    }
    __real_dtn_dma_stop(unit);
}

/* True if the text starts with this word; moves the text after it. */
static bool skip(const char **text, const char *word)
{
    size_t length = strlen(word);
    if (strncmp(*text, word, length) != 0) {
        return false;
    }
    *text += length;
    return true;
}

static bool read_number(const char **text, uint32_t *number)
{
    const char *digit = *text;
    *number = 0;
    while (*digit >= '0' && *digit <= '9' && *number < 1000000) {
        *number = *number * 10 + (uint32_t)(*digit - '0');
        digit++;
    }
    bool any = digit != *text;
    *text = digit;
    return any;
}

bool dtn_faults_set(const char *option)
{
    static const struct {
        const char *word;
        kind_t kind;
    } kinds[] = {{"fail:", FAIL}, {"partial:", PARTIAL}, {"never:", NEVER}, {"late:", LATE}};
    requested_unit = DTN_DMA_IO;
    if (!skip(&option, "io:")) {
        requested_unit = DTN_DMA_FETCH;
        if (!skip(&option, "fetch:")) {
            return false;
        }
    }
    for (uint32_t i = 0; requested == NONE && i < sizeof kinds / sizeof kinds[0]; i++) {
        requested = skip(&option, kinds[i].word) ? kinds[i].kind : NONE;
    }
    if (requested == NONE || !read_number(&option, &countdown)) {
        return false;
    }
    if (requested == LATE && (!skip(&option, ":") || !read_number(&option, &delay_us))) {
        return false;
    }
    return *option == '\0';
}
