/**
 * @file
 * Shared types of the driver: the checked view of a model, and the words of its commands.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "deuteron/kernel.h"
#include "deuteron/microcode.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error                                                                                                                 \
    "microcode, weights and tables are little-endian and read in place: a big-endian target needs a converted payload"
#endif

/** Regions with one memory each, in order. */
enum {
    DTN_SCRATCH = DTN_REGION_SCRATCH - DTN_REGION_SCRATCH,
    DTN_WEIGHTS = DTN_REGION_WEIGHTS - DTN_REGION_SCRATCH,
    DTN_PREFETCH = DTN_REGION_PREFETCH - DTN_REGION_SCRATCH,
    DTN_MEMORIES,
};

/** A model with a checked header: pointers into the caller's blocks, and the header's numbers. */
typedef struct {
    const uint32_t *words;
    const uint8_t *weights;
    const dtn_kernel_t *kernels; /**< the linked kernels by number */
    uint32_t word_count;
    uint32_t memory_bytes[DTN_MEMORIES];
    uint32_t resident_bytes;
    uint32_t profile_bytes; /**< 0 without profiling */
    uint32_t inputs;
    uint32_t outputs;
    uint32_t commands;
    uint32_t first_command;  /**< index of a word */
    uint32_t listed;         /**< bit k: the kernels block lists kernel k */
    const uint32_t *program; /**< the first command of a run */
    const uint32_t *places;  /**< scratch offsets of the inputs, then of the outputs; NULL if none has one */
} dtn_model_t;

/** The buffers of a run. */
typedef struct {
    const void *const *tensors[DTN_REGION_SCRATCH]; /**< the inputs, then the outputs */
    uint8_t *memories[DTN_MEMORIES];                /**< except the weights; NULL, as the one below, if not needed */
    uint32_t *profile;
    bool resident; /**< the resident bytes of the prefetch area are in place */
} dtn_buffers_t;

/** Scratch offset of a tensor, inputs first, then outputs; DTN_ELSEWHERE if it has none. */
static inline uint32_t dtn_place(const dtn_model_t *model, uint32_t tensor)
{
    return model->places == NULL ? DTN_ELSEWHERE : model->places[tensor];
}

/** True for a pointer at a multiple of 16 bytes. */
static inline bool dtn_is_aligned(const void *pointer)
{
    return ((uintptr_t)pointer & (DTN_ALIGNMENT - 1U)) == 0;
}

/** True if the bytes from `offset` on are within `size`. */
static inline bool dtn_is_inside(uint32_t offset, uint32_t bytes, uint32_t size)
{
    return offset <= size && bytes <= size - offset;
}

/** The channel of a fetch with this word, and whether it writes to scratch. */
static inline uint32_t dtn_fetch_channel(uint32_t word)
{
    return word & ~DTN_FETCH_TO_SCRATCH;
}
static inline bool dtn_is_to_scratch(uint32_t word)
{
    return (word & DTN_FETCH_TO_SCRATCH) != 0;
}

/** Opcode, or length in words, of the command with this first word. */
static inline uint32_t dtn_opcode(uint32_t first)
{
    return first & 0xFFU;
}
static inline uint32_t dtn_length(uint32_t first)
{
    return first >> 16;
}
