/**
 * @file
 * Inner loops over elements, or over the pixels of a window. Each kind of core has its own, as inner_loops.h says; all
 * give the same bytes.
 *
 * Inputs and outputs do not overlap; `count` may be 0.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/** A factor below 1, multiplier * 2^-(31 + shift), shift 1..30. Products round as `dtn_cm_requantize` does. */
typedef struct {
    int32_t multiplier;
    int32_t shift;
} dtn_cm_quantized_multiplier_t;

/** Zero point and limits of an int8 output. */
typedef struct {
    int32_t zero_point;
    int32_t lo;
    int32_t hi;
} dtn_cm_limits_t;

/**
 * A sum of the usual kind: int8 zero points, and the operand with the larger scale is only halved.
 *
 * The halved one is (x - zp) * 2^19, the other (y - zp) * 2^left times its factor.
 */
typedef struct {
    int32_t halved_zp;
    int32_t other_zp;
    int32_t other_left; /**< 20 or 21 */
    dtn_cm_quantized_multiplier_t other;
    dtn_cm_quantized_multiplier_t factor; /**< of the sum of both */
    dtn_cm_limits_t limits;
} dtn_cm_sum_t;

/** add_s8.c: sums of `count` elements. */
void dtn_cm_add(const dtn_cm_sum_t *sum, const int8_t *halved, const int8_t *other, int8_t *out, size_t count);

/** A product of the usual kind, with int8 zero points. */
typedef struct {
    int32_t a_zp;
    int32_t b_zp;
    dtn_cm_quantized_multiplier_t factor;
    dtn_cm_limits_t limits;
} dtn_cm_elements_product_t;

/** mul_s8.c: products of `count` elements. */
void dtn_cm_mul(const dtn_cm_elements_product_t *product, const int8_t *a, const int8_t *b, int8_t *out, size_t count);

/** extremum_s8.c: the larger of `count` pairs of elements; of both with all bits flipped, for the smaller: `flip` -1.
 */
void dtn_cm_extremum_elements(int8_t flip, const int8_t *a, const int8_t *b, int8_t *out, size_t count);

/** lookup_table_s8.c: out = table[in + 128]. */
void dtn_cm_look_up(const int8_t *table, const int8_t *in, int8_t *out, size_t count);

/** strided_copy.c: bytes i * from_step go to i * to_step; a step back wraps around. */
void dtn_cm_strided_copy(const uint8_t *from, size_t from_step, uint8_t *to, size_t to_step, size_t count);

/** A window of pixels of `channels` bytes. */
typedef struct {
    const int8_t *pixels; /**< the first channel to be seen of the first pixel */
    size_t rows;
    size_t columns;
    size_t column_step; /**< from a pixel to the next */
    size_t row_step;    /**< from a row of pixels to the next */
} dtn_cm_pixels_t;

/** Most pixels under one sum. */
enum { DTN_CM_MOST_PIXELS = 256 };

/** pool_s8.c: adds the sums of a window of at most DTN_CM_MOST_PIXELS pixels to those of `count` channels. */
void dtn_cm_add_pixels(const dtn_cm_pixels_t *window, int32_t *sums, size_t count);

/** pool_s8.c: for `count` channels the largest value of a window, or `lo`, but at most `hi`. */
void dtn_cm_largest_pixels(const dtn_cm_pixels_t *window, int8_t lo, int8_t hi, int8_t *out, size_t count);

/** A quantization of float32 to 8 bits, the same byte for int8 and uint8, or to int16. */
typedef struct {
    float inverse; /**< of the scale: a normal number of at most 2^100 */
    int32_t zero_point;
    int32_t lo;
    int32_t hi;
} dtn_cm_quantization_t;

/** quantize_s8.c: the nearest whole numbers of quotients, ties to even, and the zero point; `lo` for NaN and from 2^63
 * on.
 */
void dtn_cm_quantize(const dtn_cm_quantization_t *quantization, const float *in, uint8_t *out, size_t count);

/** quantize_s8.c: the same to int16. */
void dtn_cm_quantize_s16(const dtn_cm_quantization_t *quantization, const float *in, int16_t *out, size_t count);

/** quantize_s8.c: (in - zero_point) * scale, scale a normal number above 0. */
void dtn_cm_dequantize(float scale, int32_t zero_point, const int8_t *in, float *out, size_t count);

/** The elements of a softmax's row, which lie `step` bytes apart. */
typedef struct {
    int32_t largest;
    const uint32_t *powers; /**< of the largest less an element: at most 2^30 */
    uint32_t reciprocal;    /**< of their sum: 2^62 / sum */
    size_t step;
} dtn_cm_row_t;

/** softmax_s8.c: power * reciprocal / 2^54 to the nearest, ties to even, at most 255, less 128; of `count` elements. */
void dtn_cm_softmax_outputs(const dtn_cm_row_t *row, const int8_t *in, int8_t *out, size_t count);
