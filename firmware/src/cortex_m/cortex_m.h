/**
 * @file
 * The checks of a call of a Cortex-M operator, and the arithmetic of CMSIS-NN, which rounds twice. Section 6 of
 * spec/rounding.md is the contract.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "deuteron/cortex_m.h"

/** Shifts of a factor multiplier * 2^(shift - 31); with a lower shift, the result of a 31-bit multiplier is 0 anyway.
 */
enum { DTN_CM_MIN_SHIFT = -62, DTN_CM_MAX_SHIFT = 30 };

/** True for a call of these numbers of inputs and outputs whose parameter words are a record of type `record`. */
#define DTN_CM_IS_CALL(call, inputs, outputs, record)                                                                  \
    ((call)->input_count == (inputs) && (call)->output_count == (outputs) &&                                           \
     (call)->param_count == sizeof(record) / sizeof(uint32_t))

/** The parameter record of a call. */
#define DTN_CM_PARAMS(call, record) ((const record *)(const void *)(call)->params)

/** True when `count` values from `values` on are of the type. */
static inline bool dtn_cm_are(const dtn_tensor_t *values, uint32_t count, uint32_t type)
{
    for (uint32_t i = 0; i < count; i++) {
        if (values[i].type != type) {
            return false;
        }
    }
    return true;
}

/** True for a number of the type int8. */
static inline bool dtn_cm_is_s8(int32_t number)
{
    return number >= INT8_MIN && number <= INT8_MAX;
}

/** True for a number that is added to an int8 value: its zero point, negated. */
static inline bool dtn_cm_is_offset(int32_t number)
{
    return number > INT8_MIN && number <= -INT8_MIN;
}

/** True when the value has as many bytes as the product of the factors, each 1 or more. */
static inline bool dtn_cm_has_size(const dtn_tensor_t *value, const int32_t *factors, size_t count)
{
    /* Division avoids an overflow of the product: factors that divide the size in turn, and leave 1, have it as
     * product. */
    uint32_t left = value->bytes;
    for (size_t i = 0; i < count; i++) {
        if (factors[i] < 1 || left % (uint32_t)factors[i] != 0) {
            return false;
        }
        left /= (uint32_t)factors[i];
    }
    return left == 1;
}

/** The arguments as an array and its length. */
#define DTN_CM_LIST(...) (const int32_t[]){__VA_ARGS__}, sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t)

/**
 * True for a zero point of add, mul or div. ExecuTorch's lowering of the hard swish stores numbers of one scale with
 * the zero point of another, which leaves int8; a difference from these still fits 32 bits when add shifts it by 20.
 */
static inline bool dtn_cm_is_zero_point(int32_t number)
{
    return number >= -1920 && number <= 1919;
}

/** True for the limits of an int8 output. */
static inline bool dtn_cm_is_range(int32_t act_min, int32_t act_max)
{
    return INT8_MIN <= act_min && act_min <= act_max && act_max <= INT8_MAX;
}

/** True for a shift that `dtn_cm_requantize` takes. */
static inline bool dtn_cm_is_shift(int32_t shift)
{
    return shift >= DTN_CM_MIN_SHIFT && shift <= DTN_CM_MAX_SHIFT;
}

/** True for a shift to the right by 1 to 30, as of nearly all factors. */
static inline bool dtn_cm_is_right(int32_t shift)
{
    return shift >= -30 && shift <= -1;
}

/** True when the output is as large as the larger of two operands, and a multiple of the smaller: values a, b, out. */
static inline bool dtn_cm_is_repeated(const dtn_tensor_t *values)
{
    uint32_t large = values[0].bytes > values[1].bytes ? values[0].bytes : values[1].bytes;
    uint32_t small = values[0].bytes > values[1].bytes ? values[1].bytes : values[0].bytes;
    return values[2].bytes == large && (small == 0 ? large == 0 : large % small == 0);
}

static inline int32_t dtn_cm_clamp(int32_t value, int32_t lo, int32_t hi)
{
    return value < lo ? lo : value > hi ? hi : value;
}

/** A sum that keeps its low 32 bits when it does not fit. */
static inline int32_t dtn_cm_plus(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a + (uint32_t)b);
}

/** value / 2^shift, rounded to nearest, ties away from zero; shift 0..62. */
static inline int32_t dtn_cm_divide_by_power(int32_t value, int32_t shift)
{
    if (shift > 31) {
        return 0;
    }
    uint32_t mask = (UINT32_C(1) << shift) - 1U;
    uint32_t rest = (uint32_t)value & mask;
    uint32_t threshold = (mask >> 1) + (value < 0 ? 1U : 0U);
    /* All compilers that we know shift the sign in. */
    int32_t floor = value >> shift;
    return floor + (rest > threshold ? 1 : 0);
}

/**
 * value * multiplier * 2^(shift - 31), rounded to nearest after the multiplication and again after a shift to the
 * right: as CMSIS-NN, with the product in 64 bits. A result that does not fit into 32 bits keeps its low bits.
 */
static inline int32_t dtn_cm_requantize(int32_t value, int32_t multiplier, int32_t shift)
{
    if (shift <= 0) {
        int64_t product = (int64_t)value * multiplier + (INT64_C(1) << 30);
        return dtn_cm_divide_by_power((int32_t)(product >> 31), -shift);
    }
    /* Unsigned, where an overflow is defined. */
    uint64_t product = ((uint64_t)(int64_t)value << shift) * (uint64_t)(int64_t)multiplier + (UINT64_C(1) << 30);
    return (int32_t)(uint32_t)(product >> 31);
}
