/**
 * @file
 * Copies on boards without a DMA, by the core in interrupts that software pends: definitions, for the `dma.c` of such a
 * board. Interrupts 30 and 31 have no device there.
 *
 * With DTN_DMA_APART `dtn_port_ticks` does not include these copies: its count is then that of a core with a
 * DMA.
 */
#include "dma.h"

#include <stddef.h>
#include <string.h>

#include "board.h"
#include "core.h"
#if DTN_DMA_APART
#include "deuteron/port.h"
#endif

typedef struct {
    void *dst;
    const void *src;
    uint32_t bytes;
    dtn_dma_done_t done; /* NULL if the unit is idle */
} transfer_t;

static transfer_t transfers[DTN_DMA_UNITS];
static const uint8_t interrupts[] = {30, 31};

void dtn_on_dma0(void);
void dtn_on_dma1(void);

void dtn_dma_start(uint32_t unit, void *dst, const void *src, uint32_t bytes, dtn_dma_done_t done)
{
    transfers[unit] = (transfer_t){dst, src, bytes, done};
    dtn_interrupt_enable(interrupts[unit]);
    dtn_barrier(); /* the handler sees the transfer */
    dtn_interrupt_pend(interrupts[unit]);
}

void dtn_dma_stop(uint32_t unit)
{
    dtn_interrupt_unpend(interrupts[unit]);
    transfers[unit].done = NULL;
}

static void on_interrupt(uint32_t unit)
{
    transfer_t transfer = transfers[unit];
    transfers[unit].done = NULL;
    if (transfer.done != NULL) {
#if DTN_DMA_APART
        const uint32_t start = dtn_port_ticks();
#endif
        memcpy(transfer.dst, transfer.src, transfer.bytes);
#if DTN_DMA_APART
        dtn_dma_ticks += dtn_port_ticks() - start;
#endif
        transfer.done(transfer.bytes);
    }
}

void dtn_on_dma0(void)
{
    on_interrupt(0);
}

void dtn_on_dma1(void)
{
    on_interrupt(1);
}
