/**
 * @file
 * A bundle: an ExecuTorch program, translated ahead of time to C tables.
 *
 * `deuteron firmware` generates one C file per program. The device parses no file; it runs the tables.
 * `dtn_executor_init` checks every integer in them, and the bytes of constants and delegates, before use: damage gives
 * an error code. Pointers to tables, blocks, operators and NPUs are set by the linker and trusted, as the CRCs cannot
 * include them. Only a NULL instead of a constant, a block, an operator or an NPU is rejected.
 *
 * The last memory is the working memory of the delegates. It contains only values that are inputs and outputs of a
 * Neutron's partition with places in its scratch (spec/microcode.md). The executor rejects a step of a delegate with
 * other values in it. A bundle's generator must ensure that no CPU operator and no caller writes to other bytes there,
 * because weights stay between runs. It needs
 *
 *   DTN_CONTEXT_BYTES * delegates + the largest `working_bytes` of a delegate's NPU
 *
 * bytes, 0 without delegates. For a Neutron these are, with R(n) as n rounded up to a multiple of 16 and the numbers in
 * the header of the microcode,
 *
 *   R(DTN_POINTER_BYTES * (inputs + outputs + 2)) + scratch bytes + profile bytes + prefetch bytes
 *
 * and for an Ethos-U, with the numbers of its layout (deuteron/npu.h), R(scratch bytes) + R(fast scratch bytes), and 16
 * for each recorded operation and one more if there are any.
 */
#ifndef DEUTERON_BUNDLE_H
#define DEUTERON_BUNDLE_H

#include <stdint.h>

#include "deuteron/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Version of these tables; the executor rejects a bundle of another version. */
#define DTN_BUNDLE_VERSION UINT32_C(3)

/** Bytes of a Neutron's working memory for each pointer to a tensor on any target: one bundle fits all. */
#define DTN_POINTER_BYTES UINT32_C(8)

/** `dtn_value_t.memory` of constants: DTN_MEMORY_CONSTANT + k is `constants[k]`. */
#define DTN_MEMORY_CONSTANT UINT32_C(0x10000)

/** Maximum values of one operator, inputs and outputs together. */
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
    DTN_TYPE_U32 = 28,
    DTN_TYPE_U64 = 29,
};

/** A tensor: its memory, type and shape. */
typedef struct {
    uint32_t memory; /**< index of a memory, or DTN_MEMORY_CONSTANT + index of a constant */
    uint32_t offset; /**< bytes, a multiple of 16 */
    uint32_t bytes;  /**< a multiple of the type's size */
    uint32_t type;
} dtn_value_t;

/** Kind of a step. */
enum {
    DTN_STEP_OPERATOR = 0, /**< a CPU operator, deuteron/operators.h */
    DTN_STEP_DELEGATE = 1, /**< an NPU: values in its own order, no parameters */
    DTN_STEP_CHANGE =
        2, /**< an operator of the change of the state: no pause and no abort until the end of the program */
};

/**
 * One step of the program. Its words are the indices of the input values, those of the output values, and the
 * parameters. No output may be a constant or, outside the working memory, overlap another value of the step.
 */
typedef struct {
    uint32_t kind;
    uint32_t index; /**< in `operators` or `delegates` */
    uint32_t first; /**< index of its first word */
    uint32_t inputs;
    uint32_t outputs;
    uint32_t params;
} dtn_step_t;

/** Constant bytes, aligned to 16, in the section that the bundle's options select. */
typedef struct {
    const void *data;
    uint32_t bytes;
    uint32_t crc; /**< CRC-32 of the bytes; ignored if 0, as for a block that its NPU checks */
} dtn_constant_t;

/** An NPU family, deuteron/npu.h. */
typedef struct dtn_npu dtn_npu_t;

/** A partition for an NPU. `bytes` of a block may exceed the block's own size. */
typedef struct {
    const dtn_npu_t *npu;
    uint32_t first;  /**< index of its first block in `constants`; the NPU defines the order */
    uint32_t blocks; /**< number of its blocks */
} dtn_delegate_t;

/** A tensor with its address, for operators. */
typedef struct {
    void *data; /**< written only for outputs */
    uint32_t bytes;
    uint32_t type;
} dtn_tensor_t;

/** One call of a CPU operator. */
typedef struct {
    const uint32_t *params;
    uint32_t param_count;
    uint32_t input_count;
    uint32_t output_count;
    dtn_tensor_t values[DTN_MAX_OPERATOR_VALUES]; /**< inputs, then outputs */
} dtn_operator_call_t;

/**
 * A CPU operator: returns DTN_OK, or in the check phase the reason why the call must not run.
 *
 * The executor has checked that every value is in its memory, starts at a multiple of 16, and that no output overlaps
 * another value; the operator checks numbers, types, sizes and parameters. The content of values is not available yet.
 */
typedef int32_t (*dtn_operator_t)(const dtn_operator_call_t *call, dtn_phase_t phase);

/** A program. Everything in it is constant and may be in flash. */
typedef struct {
    uint32_t version;
    uint32_t counts_crc; /**< CRC-32 of the nine counts, in their order here: checked before any table is read */
    uint32_t crc;        /**< continued over values, steps, words, inputs, outputs and memory_bytes, in this order,
                                then over `bytes` and `crc` of each constant, and `first` and `blocks` of each delegate */
    const char *name;
    const dtn_value_t *values;
    const dtn_step_t *steps;
    const uint32_t *words;
    const uint32_t *inputs;       /**< index of the value of each input of the program */
    const uint32_t *outputs;      /**< index of the value of each output */
    const uint32_t *memory_bytes; /**< size of each memory, the last for the delegates: at least one entry */
    const dtn_operator_t *operators;
    const dtn_constant_t *constants; /**< of values and of delegates */
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
