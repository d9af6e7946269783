/**
 * @file
 * The board's free memory, given out piece by piece for as long as the runner runs.
 */
#ifndef DTN_HEAP_H
#define DTN_HEAP_H

#include <stddef.h>
#include <stdint.h>

/** What is not given out yet; starts at a multiple of 16. */
typedef struct {
    uint8_t *at;
    size_t left;
} dtn_heap_t;

/** Space for some items of a size, 16-byte aligned; ends the program with a message when there is none. */
void *dtn_heap_take(dtn_heap_t *heap, uint32_t items, size_t size);

#endif /* DTN_HEAP_H */
