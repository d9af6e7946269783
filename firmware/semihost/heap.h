/**
 * @file
 * The board's free memory, allocated piece by piece and never freed.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/** The free part; starts at a multiple of 16. */
typedef struct {
    uint8_t *at;
    size_t left;
} dtn_heap_t;

/** Allocates items of a size, 16-byte aligned; ends the program with a message if there is no memory. */
void *dtn_heap_allocate(dtn_heap_t *heap, uint32_t items, size_t size);
