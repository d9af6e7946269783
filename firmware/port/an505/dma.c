/* Two of the board's PL081 DMA controllers, channel 0 of each. */
#include "dma.h"

#include <stdbool.h>
#include <stddef.h>

#include "board.h"
#include "core.h"

typedef struct {
    volatile uint32_t src;
    volatile uint32_t dst;
    volatile uint32_t next;
    volatile uint32_t control;
    volatile uint32_t config;
} pl081_channel_t;

typedef struct {
    const volatile uint32_t int_status;
    const volatile uint32_t int_tc_status;
    volatile uint32_t int_tc_clear;
    const volatile uint32_t int_error_status;
    volatile uint32_t int_error_clear;
    uint32_t reserved0[7];
    volatile uint32_t config;
    uint32_t reserved1[51];
    pl081_channel_t channel;
} pl081_t;
DTN_CHECK_OFFSET(pl081_t, config, 0x30);
DTN_CHECK_OFFSET(pl081_t, channel, 0x100);
DTN_CHECK_OFFSET(pl081_channel_t, config, 0x10);

enum {
    CONFIG_ENABLE = 1,
    CHANNEL_ENABLE = 1,
    CHANNEL_INTERRUPTS = 3 << 14, /* at the end, and on an error */
    MAX_ELEMENTS = 4095,
};

#define CONTROL_BURSTS_OF_4 (UINT32_C(1) << 12 | UINT32_C(1) << 15)
#define CONTROL_WIDTHS(log2) ((uint32_t)(log2) << 18 | (uint32_t)(log2) << 21)
#define CONTROL_INCREMENTS (UINT32_C(3) << 26)
#define CONTROL_INTERRUPT (UINT32_C(1) << 31)

/* The copy of a unit. */
typedef struct {
    uint32_t end;        /* end of the unit's part at the destination */
    uint32_t bytes;      /* bytes of the whole copy: the core copies some at both ends */
    uint32_t width;      /* log2 of an element's bytes */
    dtn_dma_done_t done; /* NULL if the unit is idle */
} transfer_t;

static transfer_t transfers[DTN_DMA_UNITS];
static pl081_t *const units[DTN_DMA_UNITS] = {(pl081_t *)0x50110000U, (pl081_t *)0x50111000U};
static const uint8_t interrupts[DTN_DMA_UNITS] = {58, 61};

void dtn_on_dma0(void);
void dtn_on_dma1(void);

/* Starts the next part, from the unit's address registers. */
static void next_part(uint32_t unit)
{
    pl081_t *device = units[unit];
    const transfer_t *transfer = &transfers[unit];
    uint32_t elements = (transfer->end - device->channel.dst) >> transfer->width;
    if (elements > MAX_ELEMENTS) {
        elements = MAX_ELEMENTS;
    }
    device->channel.control =
        elements | CONTROL_BURSTS_OF_4 | CONTROL_WIDTHS(transfer->width) | CONTROL_INCREMENTS | CONTROL_INTERRUPT;
    device->channel.config = CHANNEL_ENABLE | CHANNEL_INTERRUPTS;
    /* Enables nothing new, but the emulated board raises a channel's interrupt only on this write. */
    device->config = CONFIG_ENABLE;
}

void dtn_dma_start(uint32_t unit, void *dst, const void *src, uint32_t bytes, dtn_dma_done_t done)
{
    pl081_t *device = units[unit];
    uint32_t to = (uint32_t)(uintptr_t)dst;
    uint32_t from = (uint32_t)(uintptr_t)src;
    /* The widest element that is aligned at both ends; one byte for very short copies. */
    uint32_t apart = to ^ from;
    uint32_t width = bytes < 8 || (apart & 1U) != 0 ? 0 : (apart & 2U) != 0 ? 1 : 2;
    uint32_t mask = (UINT32_C(1) << width) - 1;
    /* The core copies the bytes before the first and after the last whole element: up to three each. */
    uint32_t head = (0U - to) & mask;
    uint32_t tail = (bytes - head) & mask;
    for (uint32_t i = 0; i < head; i++) {
        ((uint8_t *)dst)[i] = ((const uint8_t *)src)[i];
    }
    for (uint32_t i = bytes - tail; i < bytes; i++) {
        ((uint8_t *)dst)[i] = ((const uint8_t *)src)[i];
    }
    transfers[unit] = (transfer_t){to + bytes - tail, bytes, width, done};
    dtn_interrupt_enable(interrupts[unit]);
    device->config = CONFIG_ENABLE;
    device->channel.src = from + head;
    device->channel.dst = to + head;
    device->channel.next = 0;
    dtn_barrier(); /* the core's writes are in memory before the controller reads */
    next_part(unit);
}

static void acknowledge(pl081_t *device)
{
    device->int_tc_clear = 1;
    device->int_error_clear = 1;
}

void dtn_dma_stop(uint32_t unit)
{
    /* The interrupt at the end of a part would start the next one. */
    uint32_t state = dtn_interrupts_off();
    units[unit]->channel.config = 0;
    dtn_barrier();
    while ((units[unit]->channel.config & CHANNEL_ENABLE) != 0) {
        /* The controller finishes its current burst. It never ends if the memory does not answer, where the core would
         * stop too: only a watchdog helps. Returning meanwhile would release memory that the controller may still
         * write. */
    }
    acknowledge(units[unit]);
    dtn_interrupt_unpend(interrupts[unit]);
    transfers[unit].done = NULL;
    dtn_interrupts_restore(state);
}

static void on_interrupt(uint32_t unit)
{
    pl081_t *device = units[unit];
    transfer_t *transfer = &transfers[unit];
    bool failed = (device->int_error_status & 1U) != 0;
    acknowledge(device);
    if (transfer->done == NULL) {
        return;
    }
    if (!failed && device->channel.dst != transfer->end) {
        next_part(unit);
        return;
    }
    dtn_dma_done_t done = transfer->done;
    transfer->done = NULL;
    /* After an error the progress is unknown: the address may be ahead of the memory. */
    done(failed ? 0 : transfer->bytes);
}

void dtn_on_dma0(void)
{
    on_interrupt(0);
}

void dtn_on_dma1(void)
{
    on_interrupt(1);
}
