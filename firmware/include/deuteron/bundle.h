/**
 * @file
 * A bundle: a program of ExecuTorch, read ahead of time and written as C tables.
 *
 * `deuteron firmware` generates one C file per program. Nothing on the device parses a file: the tables are what
 * runs. They hold whole numbers that `dtn_executor_init` checks before use, so a damaged image gives an error code.
 */
#ifndef DEUTERON_BUNDLE_H
#define DEUTERON_BUNDLE_H

#include <stdint.h>

#include "deuteron/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Version of these tables; a bundle of another version is refused. */
#define DTN_BUNDLE_VERSION UINT32_C(1)

/** Bytes of one model context at the start of the working memory, at least what the driver needs. */
#define DTN_CONTEXT_BYTES UINT32_C(128)

/** `dtn_value_t.memory` of constants starts here: DTN_MEMORY_CONSTANT + k is `constants[k]`. */
#define DTN_MEMORY_CONSTANT UINT32_C(0x10000)

/** Most values that one operator takes. */
#define DTN_MAX_OPERATOR_VALUES 8

/** Element types, numbered as ExecuTorch's ScalarType. */
enum {
    DTN_TYPE_U8 = 0,
    DTN_TYPE_S8 = 1,
    DTN_TYPE_S16 = 2,
    DTN_TYPE_S32 = 3,
    DTN_TYPE_S64 = 4,
    DTN_TYPE_F32 = 6,
    DTN_TYPE_F64 = 7,
    DTN_TYPE_BOOL = 11,
};

/** A tensor: where it lies and what it holds. */
typedef struct {
    uint32_t memory; /**< index of a memory of the executor, or DTN_MEMORY_CONSTANT + index of a constant */
    uint32_t offset; /**< bytes, a multiple of 16 */
    uint32_t bytes;
    uint32_t type;
} dtn_value_t;

/** What a step runs. */
enum {
    DTN_STEP_OPERATOR = 0, /**< words: indices of the values, then the operator's parameters */
    DTN_STEP_DELEGATE = 1, /**< words: indices of the input values in the NPU's order, then of the outputs */
};

/** One step of the program. */
typedef struct {
    uint32_t kind;
    uint32_t index; /**< in `operators` or `delegates` */
    uint32_t first; /**< of its words */
    uint32_t values;
    uint32_t params; /**< words after the values; 0 for a delegate */
} dtn_step_t;

/** Constant bytes, aligned to 16, in the section that the bundle's generator was asked for. */
typedef struct {
    const void *data;
    uint32_t bytes;
    uint32_t crc; /**< CRC-32 of the bytes; 0 for the blocks of a delegate, which carry their own */
} dtn_constant_t;

/** A partition for the NPU: the blocks of its container. */
typedef struct {
    dtn_constant_t microcode;
    dtn_constant_t weights;
    dtn_constant_t kernels;
} dtn_delegate_t;

/** A tensor with its address, as an operator sees it. */
typedef struct {
    void *data; /**< NULL in the check phase for what has no address yet */
    uint32_t bytes;
    uint32_t type;
} dtn_tensor_t;

/** One call of a CPU operator. */
typedef struct {
    const uint32_t *params;
    uint32_t param_count;
    uint32_t value_count;
    dtn_tensor_t values[DTN_MAX_OPERATOR_VALUES]; /**< inputs, then outputs */
} dtn_operator_call_t;

/**
 * A CPU operator: returns DTN_OK, or in the check phase the reason why the call must not run.
 *
 * The executor has checked that every value lies in its memory; the operator checks numbers, types and sizes.
 */
typedef int32_t (*dtn_operator_t)(const dtn_operator_call_t *call, dtn_phase_t phase);

/** A program. Everything in it is constant and may lie in flash. */
typedef struct {
    uint32_t version;
    uint32_t crc; /**< CRC-32 of values, steps, words, inputs, outputs and memory_bytes, in this order */
    const char *name;
    const dtn_value_t *values;
    const dtn_step_t *steps;
    const uint32_t *words;
    const uint32_t *inputs;       /**< index of the value of each input of the program */
    const uint32_t *outputs;      /**< index of the value of each output */
    const uint32_t *memory_bytes; /**< what each memory needs; the last is the working memory of the delegates */
    const dtn_operator_t *operators;
    const dtn_constant_t *constants;
    const dtn_delegate_t *delegates;
    uint32_t value_count;
    uint32_t step_count;
    uint32_t word_count;
    uint32_t input_count;
    uint32_t output_count;
    uint32_t memory_count;
    uint32_t operator_count;
    uint32_t constant_count;
    uint32_t delegate_count;
} dtn_bundle_t;

#ifdef __cplusplus
}
#endif

#endif /* DEUTERON_BUNDLE_H */
