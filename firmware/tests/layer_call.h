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
    INTERLEAVED_CONV,
    INTERLEAVED_LINEAR,
    CONV_S16,
    LAYER_KINDS
} layer_kind_t;

enum { LAYER_WORDS = 24 };

/** A call; its values have no memory yet. */
typedef struct {
    layer_kind_t kind;
    uint32_t seed; /**< of the weights of WINOGRAD, which it has in another form, and of the kind of inputs */
    union {
        uint32_t words[LAYER_WORDS];
        dtn_cm_windows_t conv;
        dtn_cm_winograd_conv2d_params_t winograd; /* begins with conv */
        dtn_cm_quantized_linear_params_t linear;
        dtn_cm_quantized_batch_matmul_params_t matmul;
        dtn_cm_convolution_s16_params_t conv_s16;
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

/** The expected output of the call; that of CONV_S16 is int16. */
void layer_expect(const layer_t *layer, int8_t *out);

/** Adds a value to a call. */
void layer_add_value(layer_t *layer, bool is_output, uint32_t type, int64_t bytes);

/** The fields of a record for its two axes. */
#define LAYER_AXES(y, x)                                                                                               \
    .in_h = (y).in, .in_w = (x).in, .out_h = (y).out, .out_w = (x).out, .kernel_h = (y).kernel,                        \
    .kernel_w = (x).kernel, .stride_h = (y).stride, .stride_w = (x).stride, .pad_h = (y).pad, .pad_w = (x).pad,        \
    .dilation_h = (y).dilation, .dilation_w = (x).dilation

/** A random axis, with one output or more; its steps are 0. */
dtn_cm_axis_t layer_random_axis(uint64_t *state, layer_kind_t kind);

/** A zero point, and the rows of an output that a call of a stripe computes. */
int32_t layer_zero_point(uint64_t *state);
void layer_random_rows(dtn_cm_windows_t *p, uint64_t *state);

/** layer_call_winograd.c: the same for WINOGRAD, if the numbers of a call, which may be damaged, are its. */
void layer_random_winograd(layer_t *layer, uint64_t *state);
bool layer_is_winograd(const layer_t *layer);
void layer_fill_winograd(const layer_t *layer, uint32_t index, uint64_t *state);

/** A weight of WINOGRAD before its transform. */
int32_t layer_winograd_weight(const layer_t *layer, int32_t channel, int32_t tap, int32_t k);

/** layer_call_s16.c: the same for CONV_S16. */
void layer_random_s16(layer_t *layer, uint64_t *state);
void layer_fill_s16(const layer_t *layer, uint32_t index, uint64_t *state);
void layer_expect_s16(const layer_t *layer, int8_t *out);
