/**
 * @file
 * The functions of lstm_s8.h on cores without vectors: logistic function and tanh of 16-bit fixed-point numbers, in
 * 16-bit steps, as TFLite's LSTM has them, and the loops around them.
 *
 * The file that includes this has four functions before it:
 *   - `dtn_lstm_times(a, b)`: the product of numbers with p and q whole bits, with p + q of them, rounded to nearest,
 *     ties up; not both are -2^15
 *   - `dtn_lstm_scaled(number, multiplier, drop)`: a number times a factor with the shift -2 - drop, as `dtn_cm_scaled`
 *     explains it; drop 0..29
 *   - `dtn_lstm_s16(x)`, `dtn_lstm_s8(x)`: the closest number of the type
 *
 * The functions are inline, so that the whole bits are constants in the loops of most networks.
 */
#pragma once

#include "inner_loops.h"
#include "lstm_s8.h"

/* exp(x - 1/8) for x from -1/8 to below 1/8 in steps of 2^-15: a polynomial. No step overflows. */
static inline int32_t exp_about_eighth(int32_t x)
{
    const int32_t at_eighth = 28918; /* exp(-1/8) */
    const int32_t third = 10923;
    int32_t x2 = dtn_lstm_times(x, x);
    int32_t x3 = dtn_lstm_times(x2, x);
    int32_t x4 = dtn_lstm_times(x2, x2);
    /* Neither of the divided numbers is below 0. */
    int32_t inner = dtn_lstm_times(((x4 + 2) >> 2) + x3, third) + x2;
    return at_eighth + dtn_lstm_times(at_eighth, x + ((inner + 1) >> 1));
}

/* The same as a constant, for x from 8 * i - 2^12: what numbers with three or more whole bits need. */
#define TIMES(a, b) (((a) * (b) + (1 << 14)) >> 15)
#define SQUARE(x) TIMES(x, x)
#define INNER(x) (TIMES(((SQUARE(SQUARE(x)) + 2) >> 2) + TIMES(SQUARE(x), x), 10923) + SQUARE(x))
#define EXP(x) (int16_t)(28918 + TIMES(28918, (x) + ((INNER(x) + 1) >> 1)))
#define EXP_1(i) EXP(8 * (i) - (1 << 12))
#define EXP_4(i) EXP_1(i), EXP_1((i) + 1), EXP_1((i) + 2), EXP_1((i) + 3)
#define EXP_16(i) EXP_4(i), EXP_4((i) + 4), EXP_4((i) + 8), EXP_4((i) + 12)
#define EXP_64(i) EXP_16(i), EXP_16((i) + 16), EXP_16((i) + 32), EXP_16((i) + 48)
#define EXP_256(i) EXP_64(i), EXP_64((i) + 64), EXP_64((i) + 128), EXP_64((i) + 192)
static const int16_t about_eighth[] = {EXP_256(0), EXP_256(256), EXP_256(512), EXP_256(768)};

/* exp(a) in steps of 2^-15 for a number below 0 with `whole` whole bits, 0..7. */
static inline int32_t exponential(int32_t a, int32_t whole)
{
    /* exp(-2^k), k from -2 on. */
    static const int16_t powers[] = {25520, 19875, 12055, 4435, 600, 11, 0};
    int32_t quarters = ~(a >> (13 - whole)), rest = a * (1 << whole) & 0x1FFF;
    int32_t result = whole < 3 ? exp_about_eighth(rest - (1 << 12)) : about_eighth[rest >> 3];
    for (int32_t i = 0; i < 7 && i < whole + 2; i++) {
        if ((quarters & (1 << i)) != 0) {
            result = dtn_lstm_times(result, powers[i]);
        }
    }
    return whole > 5 && a < -(1 << (20 - whole)) ? 0 : result; /* 0 below -32 */
}

/* 1 / ((1 + x) / 2) less 1 for x from 0 to below 1, with two whole bits: three steps of Newton's method. */
static inline int32_t reciprocal(int32_t x)
{
    const int32_t a = 23130;  /* 48 / 17 */
    const int32_t b = -15420; /* -32 / 17 */
    int32_t half = (x >> 1) + (1 << 14);
    int32_t y = a + dtn_lstm_times(half, b);
    for (int32_t i = 0; i < 3; i++) {
        int32_t error = (1 << 13) - dtn_lstm_times(half, y);
        y += dtn_lstm_times(y, error) * 4; /* far from the limits of 16 bits */
    }
    return y;
}

static inline int32_t logistic(int32_t x)
{
    if (x == 0) {
        return 1 << 14;
    }
    int32_t result = dtn_lstm_s16(reciprocal(exponential(x < 0 ? x : -x, 3)) * 2);
    return x > 0 ? result : INT16_MAX - result;
}

static inline int32_t tangent(int32_t x, int32_t whole)
{
    if (x == 0) {
        return 0;
    }
    int32_t result = dtn_lstm_s16((reciprocal(exponential(x < 0 ? x : -x, whole + 1)) - (1 << 13)) * 4);
    return x < 0 ? -result : result;
}

void dtn_cm_lstm_logistic(int16_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        numbers[i] = (int16_t)logistic(numbers[i]);
    }
}

void dtn_cm_lstm_tanh(const int16_t *numbers, int32_t whole, int16_t *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        out[i] = (int16_t)(whole == 3 ? tangent(numbers[i], 3) : tangent(numbers[i], whole));
    }
}

void dtn_cm_lstm_gates(const int32_t *input_sums, dtn_cm_lstm_factor_t input_factor, const int32_t *hidden_sums,
                       dtn_cm_lstm_factor_t hidden_factor, int16_t *gates, size_t count)
{
    const int32_t input_drop = -2 - input_factor.shift, hidden_drop = -2 - hidden_factor.shift;
    if (input_drop >= 0 && hidden_drop >= 0) {
        for (size_t i = 0; i < count; i++) {
            int32_t a = dtn_lstm_s16(dtn_lstm_scaled(input_sums[i], input_factor.multiplier, input_drop));
            int32_t b = dtn_lstm_scaled(hidden_sums[i], hidden_factor.multiplier, hidden_drop);
            gates[i] = (int16_t)dtn_lstm_s16(dtn_cm_plus(a, b));
        }
        return;
    }
    int32_t of_input[DTN_CM_ROW_SUMS], of_hidden[DTN_CM_ROW_SUMS];
    dtn_cm_lstm_scale(input_sums, input_factor, of_input, count);
    dtn_cm_lstm_scale(hidden_sums, hidden_factor, of_hidden, count);
    for (size_t i = 0; i < count; i++) {
        gates[i] = (int16_t)dtn_lstm_s16(dtn_cm_plus(dtn_lstm_s16(of_input[i]), of_hidden[i]));
    }
}

/* value / 2^shift, rounded to nearest, ties away from zero, below 2^30 + 2^20 in size; shift 15 or more. */
static inline int32_t divided(int32_t value, int32_t shift)
{
    return (value + (value >> 31) + (1 << (shift - 1))) >> shift;
}

void dtn_cm_lstm_cells(const dtn_cm_lstm_gates_t *gates, int32_t bits, int32_t clip, int16_t *cells, size_t count)
{
    const int16_t *input = gates->input, *forget = gates->forget, *cell = gates->cell;
    const int32_t lo = clip > 0 ? -clip : INT16_MIN, hi = clip > 0 ? clip : INT16_MAX, shift = 15 + bits;
    for (size_t i = 0; i < count; i++) {
        int32_t sum = divided(forget[i] * cells[i], 15) + divided(input[i] * cell[i], shift);
        cells[i] = (int16_t)dtn_cm_clamp(sum, lo, hi);
    }
}

void dtn_cm_lstm_hidden(const dtn_cm_lstm_hidden_t *scale, const int16_t *gates, const int16_t *tanh, int8_t *hidden,
                        int8_t *output, size_t count)
{
    if (scale->factor.shift > -2) {
        dtn_cm_lstm_hidden_general(scale, gates, tanh, hidden, output, count);
        return;
    }
    const int32_t multiplier = scale->factor.multiplier, drop = -2 - scale->factor.shift, zero = scale->zero_point;
    for (size_t i = 0; i < count; i++) {
        int8_t number = (int8_t)dtn_lstm_s8(dtn_cm_plus(dtn_lstm_scaled(gates[i] * tanh[i], multiplier, drop), zero));
        hidden[i] = number;
        output[i] = number;
    }
}
