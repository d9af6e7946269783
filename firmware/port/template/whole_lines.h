/**
 * @file
 * Splits a copy between the core and a DMA, so that they never share a line of the data cache.
 *
 * A line at the end of the destination may hold another's bytes. Nothing done to such a line is right while both write
 * to it: dropping it loses what the core has written, and writing it back overwrites what the DMA has. So the core
 * copies these ends and writes them back at once, for an NPU or a DMA that reads them next, and the DMA gets whole
 * lines only.
 */
#ifndef WHOLE_LINES_H
#define WHOLE_LINES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "deuteron/port.h"

/** Bytes of a line, a power of two: 32 on a Cortex-M7 and a Cortex-M55. Set what your chip has, its own caches too. */
#define CACHE_LINE_BYTES ((size_t)32)

/** What is left for the DMA. */
typedef struct {
    uint8_t *dst;
    const uint8_t *src;
    size_t bytes;
} whole_lines_t;

/** Copies what does not fill a line of the destination with the core; returns the rest, which may be nothing. */
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

#endif /* WHOLE_LINES_H */
