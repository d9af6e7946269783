/**
 * @file
 * Logistic function and hyperbolic tangent of 16-bit fixed-point numbers, in 16-bit steps, as TFLite's LSTM has them.
 */
#ifndef DTN_TFLITE_FIXED_POINT_S16_H
#define DTN_TFLITE_FIXED_POINT_S16_H

#include "../cortex_m/cortex_m.h"

/** Most whole bits of a number whose tangent is computed. */
enum { DTN_TFL_MOST_WHOLE_BITS = 6 };

static inline int32_t dtn_tfl_saturated_s16(int32_t x)
{
    return dtn_cm_clamp(x, INT16_MIN, INT16_MAX);
}

/** The product of numbers with p and q whole bits, with p + q of them, rounded to nearest, ties away from zero. */
static inline int32_t dtn_tfl_times_s16(int32_t a, int32_t b)
{
    int32_t product = a * b;
    int32_t result = (product + (product >= 0 ? 1 << 14 : 1 - (1 << 14))) / (1 << 15);
    return dtn_tfl_saturated_s16(result);
}

/** exp(a) for -1/4 <= a < 0 in steps of 2^-15: a polynomial about -1/8. */
static inline int32_t dtn_tfl_exp_of_quarter_s16(int32_t a)
{
    const int32_t at_eighth = 28918; /* exp(-1/8) */
    const int32_t third = 10923;
    int32_t x = a + (1 << 12);
    int32_t x2 = dtn_tfl_times_s16(x, x);
    int32_t x3 = dtn_tfl_times_s16(x2, x);
    int32_t x4 = dtn_tfl_times_s16(x2, x2);
    int32_t inner = dtn_tfl_times_s16(dtn_cm_divide_by_power(x4, 2) + x3, third) + x2;
    return dtn_tfl_saturated_s16(at_eighth + dtn_tfl_times_s16(at_eighth, x + dtn_cm_divide_by_power(inner, 1)));
}

/** exp(a) in steps of 2^-15 for a number of 0 or less with `whole` whole bits, 0..7. */
static inline int32_t dtn_tfl_exp_s16(int32_t a, int32_t whole)
{
    /* exp(-2^k), k from -2 on. */
    static const int16_t powers[] = {25520, 19875, 12055, 4435, 600, 11, 0};
    int32_t fraction = 15 - whole;
    int32_t quarter = 1 << (fraction - 2);
    int32_t rest = (a & (quarter - 1)) - quarter;
    int32_t result = dtn_tfl_exp_of_quarter_s16(dtn_tfl_saturated_s16(rest * (1 << whole)));
    int32_t remainder = rest - a;
    for (int32_t k = -2; k < whole && k <= 4; k++) {
        if ((remainder & (1 << (fraction + k))) != 0) {
            result = dtn_tfl_times_s16(result, powers[k + 2]);
        }
    }
    if (whole > 5 && a < -(1 << (20 - whole))) { /* below -32 */
        result = 0;
    }
    return a == 0 ? INT16_MAX : result;
}

/** 1 / ((1 + x) / 2) less 1 for x from 0 to below 1, with two whole bits: three steps of Newton's method. */
static inline int32_t dtn_tfl_reciprocal_s16(int32_t x)
{
    const int32_t a = 23130;  /* 48 / 17 */
    const int32_t b = -15420; /* -32 / 17 */
    int32_t half = (x + INT16_MAX + 1) / 2;
    int32_t y = a + dtn_tfl_times_s16(half, b);
    for (int32_t i = 0; i < 3; i++) {
        int32_t error = (1 << 13) - dtn_tfl_times_s16(half, y);
        y += dtn_tfl_saturated_s16(dtn_tfl_times_s16(y, error) * 4);
    }
    return y;
}

/** 1 / (1 + exp(-x)) of a number with three whole bits, in steps of 2^-15. */
static inline int32_t dtn_tfl_logistic_s16(int32_t x)
{
    if (x == 0) {
        return 1 << 14;
    }
    int32_t result = dtn_tfl_saturated_s16(dtn_tfl_reciprocal_s16(dtn_tfl_exp_s16(x < 0 ? x : -x, 3)) * 2);
    return x > 0 ? result : INT16_MAX - result;
}

/** tanh of a number with `whole` whole bits, in steps of 2^-15. */
static inline int32_t dtn_tfl_tanh_s16(int32_t x, int32_t whole)
{
    if (x == 0) {
        return 0;
    }
    int32_t power = dtn_tfl_exp_s16(x < 0 ? x : -x, whole + 1);
    int32_t result = dtn_tfl_saturated_s16((dtn_tfl_reciprocal_s16(power) - (1 << 13)) * 4);
    return x < 0 ? -result : result;
}

#endif /* DTN_TFLITE_FIXED_POINT_S16_H */
