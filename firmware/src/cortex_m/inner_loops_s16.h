/**
 * @file
 * The inner loops of convolutions with int16 inputs and int8 weights. Each kind of core has its own, as inner_loops.h
 * says; all give the same bytes.
 *
 * The output is that of `convolution_s16`: sum * multiplier + bias * 2^(shift - 10), divided by 2^shift and rounded to
 * nearest, ties to even. `dsp` and `mve` compute it from a 32-bit sum and the upper 32 bits of a 64-bit value:
 *
 *   - A sum of 511 products or fewer fits 32 bits: 511 * 128 * 32768 < 2^31.
 *   - Multipliers are below 2^22 and shifts are at most 40. So multiplier and bias can both have e = min(9, 40 - shift)
 *     more bits. With t = shift + e the value is sum * (multiplier * 2^e) + bias * 2^(t - 10), divided by 2^t.
 *   - The first term is below 2^62 and the second is at most 2^61. So the value fits 64 bits.
 *   - For shifts from 24 on, t is 33 to 40. So the quotient is in the upper 32 bits.
 *
 * Layers with lower shifts than DTN_CM_S16_LEAST_SHIFT are computed with 64-bit arithmetic.
 */
#pragma once

#include "int16.h"
#include "windows.h"

/** A bias is in steps of the output with so many fractional bits. */
enum { DTN_CM_S16_BIAS_BITS = 10 };

/** Least shift of outputs that are computed from a 32-bit sum and the upper 32 bits of a value. */
enum { DTN_CM_S16_LEAST_SHIFT = 24 };

/** Most products of a sum of 32 bits. */
enum { DTN_CM_S16_SHORT = 511 };

/** Factors and biases of output channels, and the limits of the output. */
typedef struct {
    const int32_t *multipliers; /**< 0 to 2^22 - 1 */
    const int32_t *shifts;      /**< 10 to 40 */
    const int32_t *bias;
    int32_t least_shift; /**< of all channels of the layer */
    int32_t lo;
    int32_t hi;
} dtn_cm_scale_s16_t;

/** Rows of inputs by the rows of weights, one for each output channel. */
typedef struct {
    const int16_t *input;
    const int8_t *weights; /**< `channels` rows, one behind the other */
    int16_t *output;
    size_t rows;
    size_t depth; /**< elements of a row */
    size_t channels;
    size_t input_pitch; /**< elements from a row of the input to the next */
    size_t output_pitch;
    dtn_cm_scale_s16_t scale;
} dtn_cm_product_s16_t;

/** matmul_s16.c: fills the output. */
void dtn_cm_multiply_s16(const dtn_cm_product_s16_t *product);

/** copy_runs_s16.c: copies `runs` runs of `count` elements, whose starts are so many elements apart. */
void dtn_cm_copy_runs_s16(const int16_t *from, size_t from_step, int16_t *to, size_t to_step, size_t count,
                          size_t runs);

/** An image of a convolution. */
typedef struct {
    const dtn_cm_convolution_s16_params_t *p;
    const int16_t *input;
    const int8_t *weights; /**< for each output channel a row of all positions */
    int16_t *output;
    dtn_cm_scale_s16_t scale;
} dtn_cm_image_s16_t;

/** Most positions of a kernel of `dtn_cm_depthwise_s16`: the sum fits 32 bits. */
enum { DTN_CM_S16_TAPS = 256 };

/** depthwise_conv2d_s16.c: fills the output of a layer with an output channel for each input channel. */
void dtn_cm_depthwise_s16(const dtn_cm_image_s16_t *image);

/**
 * conv2d_s16.c: fills the output of a layer of one group, where neighbours in a row of the kernel are neighbours in
 * memory. It returns false, and writes nothing, if the caller must copy windows and call `dtn_cm_multiply_s16`.
 */
bool dtn_cm_convolve_s16(const dtn_cm_image_s16_t *image);

/** The output for the sum of a channel. */
static inline int16_t dtn_cm_scaled_s16(const dtn_cm_scale_s16_t *scale, size_t channel, int64_t sum)
{
    int32_t shift = scale->shifts[channel];
    int64_t bias = (int64_t)scale->bias[channel] * (INT32_C(1) << (shift - DTN_CM_S16_BIAS_BITS));
    return dtn_cm_shift_to_s16(sum * scale->multipliers[channel] + bias, shift, scale->lo, scale->hi);
}
