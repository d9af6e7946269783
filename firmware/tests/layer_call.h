/**
 * @file
 * Random calls of the Cortex-M layers, and what a plain loop makes of them.
 */
#pragma once

#include "../src/cortex_m/windows.h"
#include "test.h"

/** A layer, independent of its operator's name. */
typedef enum {
    CONV,
    DEPTHWISE,
    TRANSPOSED,
    LINEAR,
    MATMUL,
    WINOGRAD,
    PACKED_CONV,
    PACKED_DEPTHWISE,
    PACKED_LINEAR,
    LAYER_KINDS
} layer_kind_t;

enum { LAYER_WORDS = 24 };

/** A call; its values have no memory yet. */
typedef struct {
    layer_kind_t kind;
    uint32_t seed; /**< of the weights of WINOGRAD, which it has in another form, and of the kind of its inputs */
    union {
        uint32_t words[LAYER_WORDS];
        dtn_cm_windows_t conv;
        dtn_cm_quantized_linear_params_t linear;
        dtn_cm_quantized_batch_matmul_params_t matmul;
    } params;
    dtn_operator_call_t call; /**< of the operator `layer_operators[kind]`, with `params` as its words */
} layer_t;

extern const dtn_operator_t layer_operators[LAYER_KINDS];

/** A random call, which its operator takes. */
void layer_random(layer_t *layer, uint64_t *state);

/** Fills value `index`, which has memory: most factors are usual ones. */
void layer_fill(const layer_t *layer, uint32_t index, uint64_t *state);

/** The output value of a call. */
const dtn_tensor_t *layer_output(const layer_t *layer);

/** The expected output of the call. */
void layer_expect(const layer_t *layer, int8_t *out);
