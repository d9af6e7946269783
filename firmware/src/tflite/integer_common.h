/**
 * @file
 * Elements of int8 or int16, factors, and loops over broadcast operands, for operators with TFLite's arithmetic.
 */
#ifndef DTN_TFLITE_INTEGER_COMMON_H
#define DTN_TFLITE_INTEGER_COMMON_H

#include "../cortex_m/broadcast_index.h"
#include "deuteron/tflite.h"

/** The limits of a type of stored values. */
typedef struct {
    int32_t min;
    int32_t max;
} dtn_tfl_limits_t;

static inline dtn_tfl_limits_t dtn_tfl_limits(uint32_t type)
{
    switch (type) {
    case DTN_TYPE_U8:
        return (dtn_tfl_limits_t){0, UINT8_MAX};
    case DTN_TYPE_S8:
        return (dtn_tfl_limits_t){INT8_MIN, INT8_MAX};
    case DTN_TYPE_S16:
        return (dtn_tfl_limits_t){INT16_MIN, INT16_MAX};
    default:
        return (dtn_tfl_limits_t){INT32_MIN, INT32_MAX};
    }
}

/** True for the two types of activations. */
static inline bool dtn_tfl_is_activation(uint32_t type)
{
    return type == DTN_TYPE_S8 || type == DTN_TYPE_S16;
}

/** Bytes of an element of a type that stands for whole numbers. */
static inline uint32_t dtn_tfl_item(uint32_t type)
{
    return type == DTN_TYPE_S32 ? 4U : type == DTN_TYPE_S16 ? 2U : 1U;
}

/** Bytes of an element of a bool, an integer or a float32; 0 for another type. */
static inline uint32_t dtn_tfl_number_bytes(uint32_t type)
{
    switch (type) {
    case DTN_TYPE_BOOL:
    case DTN_TYPE_U8:
    case DTN_TYPE_S8:
        return 1;
    case DTN_TYPE_S16:
        return 2;
    case DTN_TYPE_S32:
    case DTN_TYPE_U32:
    case DTN_TYPE_F32:
        return 4;
    case DTN_TYPE_S64:
    case DTN_TYPE_U64:
        return 8;
    default:
        return 0;
    }
}

/** The elements of a value. */
static inline uint32_t dtn_tfl_elements(const dtn_tensor_t *value)
{
    return value->bytes / dtn_tfl_item(value->type);
}

/** An element of int8 or int16. */
static inline int32_t dtn_tfl_at(const dtn_tensor_t *value, size_t at)
{
    return value->type == DTN_TYPE_S16 ? ((const int16_t *)value->data)[at] : ((const int8_t *)value->data)[at];
}

/** An element of any integer type or of bools; one of uint64 as int64 with its bits. */
static inline int64_t dtn_tfl_whole_at(const dtn_tensor_t *value, size_t at)
{
    switch (value->type) {
    case DTN_TYPE_S64:
    case DTN_TYPE_U64:
        return ((const int64_t *)value->data)[at];
    case DTN_TYPE_S32:
        return ((const int32_t *)value->data)[at];
    case DTN_TYPE_U32:
        return ((const uint32_t *)value->data)[at];
    case DTN_TYPE_S16:
    case DTN_TYPE_S8:
        return dtn_tfl_at(value, at);
    default:
        return ((const uint8_t *)value->data)[at];
    }
}

/** Writes an element of int8 or int16. */
static inline void dtn_tfl_put(const dtn_tensor_t *value, size_t at, int32_t number)
{
    if (value->type == DTN_TYPE_S16) {
        ((int16_t *)value->data)[at] = (int16_t)number;
    } else {
        ((int8_t *)value->data)[at] = (int8_t)number;
    }
}

/** True for a stored value of the type. */
static inline bool dtn_tfl_holds(uint32_t type, int32_t number)
{
    dtn_tfl_limits_t limits = dtn_tfl_limits(type);
    return number >= limits.min && number <= limits.max;
}

/** True for the limits of an output of the type. */
static inline bool dtn_tfl_is_range(uint32_t type, int32_t act_min, int32_t act_max)
{
    return act_min <= act_max && dtn_tfl_holds(type, act_min) && dtn_tfl_holds(type, act_max);
}

/** True for a factor. */
static inline bool dtn_tfl_is_factor(int32_t multiplier, int32_t shift)
{
    return multiplier >= 0 && shift >= -31 && shift <= 30;
}

/** The product of a number and a factor, and the zero point, within limits. */
static inline int32_t dtn_tfl_scaled(int32_t number, int32_t multiplier, int32_t shift, int32_t zero_point,
                                     dtn_tfl_limits_t limits)
{
    int32_t scaled = dtn_cm_plus(dtn_cm_requantize(number, multiplier, shift), zero_point);
    return dtn_cm_clamp(scaled, limits.min, limits.max);
}

/**
 * A sum of 64 bits by a factor whose multiplier has 15 bits, rounded once, ties up; the shift is at most 14. Sums below
 * 2^47 fit; a product that does not keeps its low 64 bits.
 */
static inline int64_t dtn_tfl_wide_scaled(int64_t sum, int32_t multiplier, int32_t shift)
{
    uint64_t reduced = (uint64_t)(multiplier < 0x7FFF0000 ? (multiplier + (1 << 15)) >> 16 : 0x7FFF);
    int32_t right = 15 - shift;
    return (int64_t)((uint64_t)sum * reduced + (UINT64_C(1) << (right - 1))) >> right;
}

/** The sum of two numbers; one that does not fit keeps its low 64 bits. */
static inline int64_t dtn_tfl_wide_plus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

/** A walk over two operands, row by row: `length` elements, `a_step` and `b_step` apart, from `a` and `b` on. */
typedef struct {
    const int32_t *dims;
    const int32_t *a_strides;
    const int32_t *b_strides;
    int32_t index[DTN_INDEX_RANK];
    uint32_t length;
    uint32_t a_step;
    uint32_t b_step;
    uint32_t a;
    uint32_t b;
    uint32_t out;
    uint32_t left; /**< elements that are not done */
} dtn_tfl_pairs_t;

/** True when a walk stays inside the first two of three values, and fills the third. */
static inline bool dtn_tfl_are_pairs(const dtn_tensor_t *values, const int32_t *dims, const int32_t *a_strides,
                                     const int32_t *b_strides)
{
    uint32_t count = dtn_tfl_elements(&values[2]);
    return dtn_index_is_inside(dims, a_strides, count, dtn_tfl_elements(&values[0])) &&
           dtn_index_is_inside(dims, b_strides, count, dtn_tfl_elements(&values[1]));
}

static inline dtn_tfl_pairs_t dtn_tfl_pairs(const dtn_tensor_t *values, const int32_t *dims, const int32_t *a_strides,
                                            const int32_t *b_strides)
{
    enum { LAST = DTN_INDEX_RANK - 1 };
    return (dtn_tfl_pairs_t){
        .dims = dims,
        .a_strides = a_strides,
        .b_strides = b_strides,
        .length = (uint32_t)dims[LAST],
        .a_step = (uint32_t)a_strides[LAST],
        .b_step = (uint32_t)b_strides[LAST],
        .left = dtn_tfl_elements(&values[2]),
    };
}

/** Goes to the next row. */
static inline void dtn_tfl_pairs_next(dtn_tfl_pairs_t *pairs)
{
    pairs->left -= pairs->length;
    pairs->out += pairs->length;
    pairs->index[DTN_INDEX_RANK - 1] = (int32_t)pairs->length - 1;
    dtn_index_next(pairs->index, pairs->dims);
    pairs->a = dtn_index_offset(pairs->index, pairs->a_strides);
    pairs->b = dtn_index_offset(pairs->index, pairs->b_strides);
}

#endif /* DTN_TFLITE_INTEGER_COMMON_H */
