/**
 * @file
 * The program that the tests of the executor run: every kind of step, input, output and memory, in seven values.
 */
#pragma once

#include "bundle_builder.h"

enum { SMALL_COUNT = 12, SMALL_COPIES = 5 };

/** Its values, by index. */
enum {
    SMALL_X,          /**< input 0, F32 [1, 3, 4] */
    SMALL_LIMIT,      /**< input 1, S8 [1, 4, 3] */
    SMALL_QUANTIZED,  /**< S8 [1, 3, 4] */
    SMALL_TRANSPOSED, /**< S8 [1, 4, 3] */
    SMALL_HIGH,       /**< max(table[transposed], limit), table[q] = -1 - q */
    SMALL_TWICE,      /**< output 1: table[limit] */
    SMALL_CEILING,    /**< a constant, and output 2 */
    SMALL_LOW,        /**< min(high, ceiling) */
    SMALL_Y,          /**< output 0, F32 */
    SMALL_VALUES,
};

/** Its steps. The first delegate fetches its table, works in scratch memory and is profiled. */
enum { SMALL_QUANTIZE, SMALL_TRANSPOSE, SMALL_FIRST, SMALL_SECOND, SMALL_DEQUANTIZE, SMALL_STEPS };

/** Where the commands of the first delegate's microcode stand: fetch, wait, and calls. */
enum { SMALL_FETCH, SMALL_WAIT, SMALL_CALL };

/** The program and the containers of its delegates. */
typedef struct {
    program_t program;
    build_t first;
    build_t second;
} small_t;

/** Builds it, ready to run; `small_free` gives its memory back. */
void small_start(small_t *small);
void small_free(small_t *small);

/** Inputs and outputs of a run, at odd addresses. */
typedef struct {
    uint8_t memory[SMALL_COPIES][SMALL_COUNT * sizeof(float) + 1];
    const void *inputs[2];
    void *outputs[3];
} small_buffers_t;

/** Fills the inputs from `seed` and the outputs with bytes that no run leaves there. */
void small_fill(small_buffers_t *buffers, uint64_t seed);

/** True when the outputs are what the program computes from the inputs. */
bool small_is_right(const small_buffers_t *buffers);
