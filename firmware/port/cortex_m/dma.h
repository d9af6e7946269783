/**
 * @file
 * Units of a board that copy memory in parallel with the core.
 */
#pragma once

#include <stdint.h>

/** Purpose of each unit. */
enum { DTN_DMA_IO = 0, DTN_DMA_FETCH = 1, DTN_DMA_UNITS = 2 };

/** Called from an interrupt at the end of a copy; `moved` is less than requested if it failed. */
typedef void (*dtn_dma_done_t)(uint32_t moved);

/** Starts to copy at least one byte between memories that do not overlap, of any alignment; the unit must be idle. */
void dtn_dma_start(uint32_t unit, void *dst, const void *src, uint32_t bytes, dtn_dma_done_t done);

/** Aborts a copy: afterwards nothing is written and `done` is not called. The unit is then idle. Returns after the
 * current bus transfer, which memories answer. */
void dtn_dma_stop(uint32_t unit);

#if DTN_DMA_APART
/** Ticks that the core spent on copies instead of a DMA, in units of `dtn_port_ticks`. */
extern volatile uint32_t dtn_dma_ticks;
#endif
