/**
 * @file
 * Splits a copy between the core and a DMA, so that they never share a line of the data cache.
 *
 * A cache line at the end of the destination may contain other data. If core and DMA both write to it, invalidating it
 * loses the core's writes, and writing it back overwrites the DMA's. So the core copies these ends and writes them back
 * immediately, for an NPU or a DMA that reads them next, and the DMA gets whole lines only.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "deuteron/port.h"

/** Bytes of a cache line, a power of two: 32 on a Cortex-M7 and a Cortex-M55. Include your chip's other caches. */
#define CACHE_LINE_BYTES ((size_t)32)

/** The part that is left for the DMA. */
typedef struct {
    uint8_t *dst;
    const uint8_t *src;
    size_t bytes;
} whole_lines_t;

/** Copies the partial lines of the destination with the core; returns the rest, which may be empty. */
static inline whole_lines_t whole_lines(void *dst, const void *src, size_t bytes)
{
    size_t head = (0U - (uintptr_t)dst) & (CACHE_LINE_BYTES - 1);
    if (head > bytes) {
        head = bytes;
    }
    size_t tail = (bytes - head) & (CACHE_LINE_BYTES - 1);
    whole_lines_t lines = {(uint8_t *)dst + head, (const uint8_t *)src + head, bytes - head - tail};
    memcpy(dst, src, head);
    memcpy(lines.dst + lines.bytes, lines.src + lines.bytes, tail);
    dtn_port_cache_clean(dst, head);
    dtn_port_cache_clean(lines.dst + lines.bytes, tail);
    return lines;
}
