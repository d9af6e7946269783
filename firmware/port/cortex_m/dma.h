/**
 * @file
 * The units of a board that copy memory while the core does something else.
 */
#ifndef DTN_DMA_H
#define DTN_DMA_H

#include <stdint.h>

/** What each unit is for. */
enum { DTN_DMA_IO = 0, DTN_DMA_FETCH = 1, DTN_DMA_UNITS = 2 };

/** Called from an interrupt when a copy has ended; `moved` is less than what was asked for when it failed. */
typedef void (*dtn_dma_done_t)(uint32_t moved);

/** Starts to copy at least one byte between memories that do not overlap, of any alignment; the unit must be idle. */
void dtn_dma_start(uint32_t unit, void *dst, const void *src, uint32_t bytes, dtn_dma_done_t done);

/** Ends a copy: nothing is written and `done` is not called after this. The unit is idle then. Returns after what is
 * under way on the bus, which memories answer. */
void dtn_dma_stop(uint32_t unit);

#if DTN_DMA_APART
/** Ticks that the core has spent in the place of a DMA, as `dtn_port_ticks` counts them. */
extern volatile uint32_t dtn_dma_ticks;
#endif

#endif /* DTN_DMA_H */
