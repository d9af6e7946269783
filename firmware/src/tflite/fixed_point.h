/**
 * @file
 * Fixed-point numbers as TFLite computes with them: a product rounds to nearest and keeps the upper half of 64 bits.
 */
#ifndef DTN_TFLITE_FIXED_POINT_H
#define DTN_TFLITE_FIXED_POINT_H

#include "../cortex_m/cortex_m.h"

/** The product of numbers with p and q whole bits, with p + q of them; not both are -2^31. */
static inline int32_t dtn_tfl_times(int32_t a, int32_t b)
{
    return (int32_t)(((int64_t)a * b + (INT64_C(1) << 30)) >> 31);
}

/** x * 2^bits within 32 bits. */
static inline int32_t dtn_tfl_up(int32_t x, int32_t bits)
{
    int64_t y = (int64_t)x * (INT64_C(1) << bits);
    return y > INT32_MAX ? INT32_MAX : y < INT32_MIN ? INT32_MIN : (int32_t)y;
}

/** Zeros above the uppermost bit of a number above 0. */
static inline int32_t dtn_tfl_leading_zeros(uint32_t x)
{
    int32_t zeros = 0;
    for (; zeros < 32 && (x & (UINT32_C(1) << 31)) == 0; x <<= 1) {
        zeros++;
    }
    return zeros;
}

/** True for a table of powers of e from exp(0) = `one` on: a constant, which no check of a call has read. */
static inline bool dtn_tfl_are_powers(const int32_t *table, int32_t entries, int32_t one)
{
    bool are = table[0] == one;
    for (int32_t i = 1; i < entries; i++) {
        are = are && table[i] >= 0 && table[i] <= one;
    }
    return are;
}

/** 1 / (1 + x) for x from 0 to below 1, both in steps of 2^-31: three steps of Newton's method. */
static inline int32_t dtn_tfl_one_over_one_plus(int32_t x)
{
    const int32_t a = 1515870810;  /* 48 / 17 in steps of 2^-29 */
    const int32_t b = -1010580540; /* -32 / 17 */
    int32_t half = (int32_t)(((int64_t)x + INT32_MAX + 1) / 2);
    int32_t y = a + dtn_tfl_times(half, b);
    for (int32_t i = 0; i < 3; i++) {
        int32_t rest = (INT32_C(1) << 29) - dtn_tfl_times(half, y);
        y += dtn_tfl_up(dtn_tfl_times(y, rest), 2);
    }
    return dtn_tfl_up(y, 1);
}

#endif /* DTN_TFLITE_FIXED_POINT_H */
