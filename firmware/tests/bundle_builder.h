/**
 * @file
 * Writes bundles for tests, by appending; sizes are fixed and ample, overruns abort.
 */
#pragma once

#include "container_builder.h"
#include "deuteron/npu.h"
#include "deuteron/operators.h"

enum { PROGRAM_MAX = 600, PROGRAM_MEMORIES = 3, PROGRAM_WORKING = PROGRAM_MEMORIES - 1, PROGRAM_BLOCKS = 3 };

/** A bundle being built, with memories 0 and 1 for values and 2 to work in; ready to run after `program_finish`. */
typedef struct {
    dtn_bundle_t bundle;
    dtn_memory_t memories[PROGRAM_MEMORIES]; /**< of just the sizes that the bundle needs */
    dtn_value_t values[PROGRAM_MAX];
    dtn_step_t steps[PROGRAM_MAX];
    uint32_t words[PROGRAM_MAX];
    uint32_t inputs[PROGRAM_MAX];
    uint32_t outputs[PROGRAM_MAX];
    uint32_t memory_bytes[PROGRAM_MEMORIES];
    dtn_operator_t operators[PROGRAM_MAX];
    dtn_constant_t constants[PROGRAM_BLOCKS * PROGRAM_MAX]; /**< of values, and three blocks of each delegate */
    dtn_delegate_t delegates[PROGRAM_MAX];
    void *owned[64];
    uint32_t owned_count;
} program_t;

/** The tables of words in a bundle. */
typedef enum { TABLE_VALUES, TABLE_STEPS, TABLE_WORDS, TABLE_INPUTS, TABLE_OUTPUTS, TABLE_MEMORIES, TABLES } table_t;

/** Starts an empty bundle; `program_free` gives its memory back. */
void program_start(program_t *program);
void program_free(program_t *program);

/** Add a value in memory 0 or 1, or a constant; return its index. */
uint32_t program_value(program_t *program, uint32_t memory, uint32_t bytes, uint32_t type);
uint32_t program_constant(program_t *program, const void *data, uint32_t bytes, uint32_t type);

/** Make a value an input or output of the program. */
void program_input(program_t *program, uint32_t value);
void program_output(program_t *program, uint32_t value);

/** Append a step. */
void program_operator(program_t *program, dtn_operator_t function, uint32_t input, uint32_t output,
                      const uint32_t *params, uint32_t param_count);
void program_call(program_t *program, dtn_operator_t function, const uint32_t *values, uint32_t inputs,
                  uint32_t outputs, const uint32_t *params, uint32_t param_count);
void program_delegate(program_t *program, const build_t *build, const uint32_t *values);

/** Append a step of another family's partition, its blocks, and the input and output that are all the program has. */
void program_partition(program_t *program, const dtn_npu_t *npu, const dtn_constant_t *blocks, uint32_t count,
                       uint32_t tensor_bytes, uint32_t working_bytes);

/** Copies the tables to memory of just their size, so that the address sanitizer sees every read beyond; sizes and
 * allocates the memories; makes the CRCs. */
void program_finish(program_t *program);

/** Updates the CRCs of tables and counts after changes. */
void program_seal(program_t *program);

/** A table after `program_finish`, as words that may be changed, and how many they are. */
uint32_t *program_table(program_t *program, table_t table, uint32_t *count);

/** The bits of a float, as parameters hold them. */
uint32_t program_bits(float number);
