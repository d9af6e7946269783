#include "heap.h"

#include "options.h"

/* Sizes are compared before they are rounded or multiplied, to avoid overflow. */
void *dtn_heap_allocate(dtn_heap_t *heap, uint32_t items, size_t size)
{
    size_t left = heap->left & ~(size_t)15;
    if (items > left / size) {
        dtn_usage_error("the board's memory is too small for the buffers of inputs, outputs and events", "");
    }
    size_t whole = (items * size + 15) & ~(size_t)15;
    uint8_t *memory = heap->at;
    heap->at += whole;
    heap->left -= whole;
    return memory;
}
