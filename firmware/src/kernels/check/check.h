/**
 * @file
 * Checks of kernel calls: one function per kernel, shared by all its variants, and their shared helpers.
 *
 * Each returns DTN_OK or the rule of spec/microcode.md section 6 that the call breaks. They trust only what the driver
 * promises in `DTN_PHASE_CHECK`.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "deuteron/kernel.h"

#define DTN_X(name, NAME, read, written, words, checked, aligned, in_place)                                            \
    dtn_reason_t dtn_check_##name(const dtn_call_t *call);
DTN_KERNELS(DTN_X)
#undef DTN_X

/** The parameters of a convolution or pooling for an axis, in this order. */
enum { DTN_AXIS_IN, DTN_AXIS_OUT, DTN_AXIS_KERNEL, DTN_AXIS_STRIDE, DTN_AXIS_DILATION, DTN_AXIS_DIMENSIONS };

/** One axis of a convolution or pooling. */
typedef struct {
    int32_t dims[DTN_AXIS_DIMENSIONS];
    int32_t pad; /**< before the first element */
} dtn_axis_t;

/** Every output window of the axis touches the map, all sizes are in range. */
dtn_reason_t dtn_check_axis(const dtn_axis_t *axis);

/** Zero points and clamp limits are int8 values and the limits in order; pass 0 for a zero point that a kernel lacks.
 */
dtn_reason_t dtn_check_range(int32_t in_zp, int32_t out_zp, int32_t act_min, int32_t act_max);

/** The operand is `count` rows, each (when the address is known) in range. */
dtn_reason_t dtn_check_requant(const dtn_operand_t *operand, int32_t count);

/** A multiplier of 0 or more and a shift of 1 to 62. */
bool dtn_is_factor(int32_t multiplier, int32_t shift);

/** A multiplier of 0 or more and a shift before a division by up to `count`, 1 or more: count * 2^shift is at most
 * 2^DTN_MAX_MEAN_SHIFT. */
bool dtn_is_mean_factor(int32_t multiplier, int32_t shift, int32_t count);

/** Operands, dimensions and strides of a broadcasting kernel (add, mul, extremum, prelu). */
dtn_reason_t dtn_check_broadcast(const dtn_call_t *call, const int32_t *dims, const int32_t *a_strides,
                                 const int32_t *b_strides);

/** Every one of the dimensions is 1 to DTN_MAX_DIMENSION. */
bool dtn_are_dimensions(const int32_t *dims, size_t count);

/** The operand has exactly as many bytes as the product of the factors, each 1 or more. */
bool dtn_has_size(const dtn_operand_t *operand, const int32_t *factors, size_t count);

/**
 * The elements that the strides reach from byte `start` on lie inside the operand; dimensions are in range. Strides may
 * be negative.
 */
bool dtn_is_reach_inside(const dtn_operand_t *operand, int32_t start, const int32_t *dims, const int32_t *strides,
                         size_t rank);

/** Every stride is 0 or more. */
bool dtn_are_forward(const int32_t *strides, size_t rank);

/** The arguments as an array and its length. */
#define DTN_LIST(...) (const int32_t[]){__VA_ARGS__}, sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t)
