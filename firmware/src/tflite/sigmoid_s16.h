/**
 * @file
 * Logistic function and hyperbolic tangent of int16: a table of 65536 / (1 + exp(-i / 24)), and lines between its
 * values.
 */
#ifndef DTN_TFLITE_SIGMOID_S16_H
#define DTN_TFLITE_SIGMOID_S16_H

#include <stdint.h>

/** Values of the table. */
enum { DTN_TFL_SIGMOID_VALUES = 256 };

/** The value between two of the table, `bits` behind the point, in 32 bits that wrap where a table is damaged. */
static inline uint32_t dtn_tfl_between(const int32_t *table, uint32_t x, uint32_t bits)
{
    uint32_t at = x >> bits;
    uint32_t rest = x & ((UINT32_C(1) << bits) - 1U);
    uint32_t first = (uint32_t)table[at];
    return (first << bits) + rest * ((uint32_t)table[at + 1] - first);
}

/** The logistic function of a number in steps of 1/12288, in steps of 2^-15. */
static inline int16_t dtn_tfl_logistic_s16(const int32_t *table, int32_t x)
{
    const uint32_t one = UINT32_C(1) << 9;
    uint32_t size = (uint32_t)(x < 0 ? -x : x);
    uint32_t value = size >> 9 >= DTN_TFL_SIGMOID_VALUES - 1 ? UINT32_C(0x7FFF) << 10 : dtn_tfl_between(table, size, 9);
    value = x >= 0 ? value + one : (UINT32_C(1) << 25) - value + one - 1U;
    return (int16_t)(value >> 10);
}

/** The hyperbolic tangent of a number in steps of 1/12288, in steps of 2^-15. */
static inline int16_t dtn_tfl_tanh_s16(const int32_t *table, int32_t x)
{
    uint32_t size = (uint32_t)(x < 0 ? -x : x);
    uint32_t value =
        (size >> 8 >= DTN_TFL_SIGMOID_VALUES - 1 ? UINT32_C(0xFFFF) << 8 : dtn_tfl_between(table, size, 8)) -
        (UINT32_C(1) << 23);
    value = x >= 0 ? value + (1U << 7) : (1U << 7) - 1U - value;
    return (int16_t)((int32_t)value >> 8);
}

/** x * multiplier / 2^shift, rounded to nearest, ties up; shift 0..31. */
static inline int32_t dtn_tfl_sigmoid_input(int16_t x, int32_t multiplier, int32_t shift)
{
    int64_t half = shift > 0 ? INT64_C(1) << (shift - 1) : 0;
    return (int32_t)(((int64_t)x * multiplier + half) >> shift);
}

#endif /* DTN_TFLITE_SIGMOID_S16_H */
