/**
 * @file
 * Splits a copy between the core and a DMA, so that they never share a line of the data cache.
 *
 * A cache line at the end of the destination may contain other data. If core and DMA both write to it, invalidating it
 * loses the core's writes, and writing it back overwrites the DMA's. So the core copies these ends and writes them back
 * immediately, for an NPU or a DMA that reads them next. The DMA copies whole cache lines only.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "deuteron/port.h"

/** Bytes of a cache line, a power of two: 32 on a Cortex-M7 and a Cortex-M55. Include your chip's other caches. */
#define CACHE_LINE_BYTES ((size_t)32)

/** The copy that the DMA makes: whole cache rest. */
typedef struct {
    uint8_t *dst;
    const uint8_t *src;
    size_t bytes;
} dma_copy_t;

/** Copies the partial cache lines at the ends of the destination with the core; returns the DMA's copy, maybe empty. */
static inline dma_copy_t copy_partial_lines(void *dst, const void *src, size_t bytes)
{
    size_t head = (0U - (uintptr_t)dst) & (CACHE_LINE_BYTES - 1);
    if (head > bytes) {
        head = bytes;
    }
    size_t tail = (bytes - head) & (CACHE_LINE_BYTES - 1);
    dma_copy_t rest = {(uint8_t *)dst + head, (const uint8_t *)src + head, bytes - head - tail};
    memcpy(dst, src, head);
    memcpy(rest.dst + rest.bytes, rest.src + rest.bytes, tail);
    dtn_port_cache_clean(dst, head);
    dtn_port_cache_clean(rest.dst + rest.bytes, tail);
    return rest;
}
