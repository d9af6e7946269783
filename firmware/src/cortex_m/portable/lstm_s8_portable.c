#include "../lstm_s8.h"
#include "../scale.h"

/*
 * Logistic function and tanh of 16-bit fixed-point numbers, in 16-bit steps, as TFLite's LSTM has them.
 *
 * The functions are inline, so that the whole bits are constants in the loops of most networks.
 */

/* The product of numbers with p and q whole bits, with p + q of them, rounded to nearest, ties up; not both -2^15. */
static inline int32_t times(int32_t a, int32_t b)
{
    return (a * b + (1 << 14)) >> 15;
}

/* exp(x - 1/8) for x from -1/8 to below 1/8 in steps of 2^-15: a polynomial. No step overflows. */
static inline int32_t exp_about_eighth(int32_t x)
{
    const int32_t at_eighth = 28918; /* exp(-1/8) */
    const int32_t third = 10923;
    int32_t x2 = times(x, x);
    int32_t x3 = times(x2, x);
    int32_t x4 = times(x2, x2);
    /* Neither of the divided numbers is below 0. */
    int32_t inner = times(((x4 + 2) >> 2) + x3, third) + x2;
    return at_eighth + times(at_eighth, x + ((inner + 1) >> 1));
}

/* exp(a) in steps of 2^-15 for a number below 0 with `whole` whole bits, 0..7. */
static inline int32_t exponential(int32_t a, int32_t whole)
{
    /* exp(-2^k), k from -2 on. */
    static const int16_t powers[] = {25520, 19875, 12055, 4435, 600, 11, 0};
    int32_t quarters = ~(a >> (13 - whole));
    int32_t result = exp_about_eighth((a * (1 << whole) & 0x1FFF) - (1 << 12));
    for (int32_t i = 0; i < 7 && i < whole + 2; i++) {
        if ((quarters & (1 << i)) != 0) {
            result = times(result, powers[i]);
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
    int32_t y = a + times(half, b);
    for (int32_t i = 0; i < 3; i++) {
        int32_t error = (1 << 13) - times(half, y);
        y += times(y, error) * 4; /* far from the limits of 16 bits */
    }
    return y;
}

static inline int32_t at_most_s16(int32_t x)
{
    return x < INT16_MAX ? x : INT16_MAX;
}

static inline int32_t logistic(int32_t x)
{
    if (x == 0) {
        return 1 << 14;
    }
    int32_t result = at_most_s16(reciprocal(exponential(x < 0 ? x : -x, 3)) * 2);
    return x > 0 ? result : INT16_MAX - result;
}

static inline int32_t tangent(int32_t x, int32_t whole)
{
    if (x == 0) {
        return 0;
    }
    int32_t result = at_most_s16((reciprocal(exponential(x < 0 ? x : -x, whole + 1)) - (1 << 13)) * 4);
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

/* A number times a factor that shifts to the right by `right` bits, 1 or more, as `dtn_cm_scaled` explains it. */
static inline int32_t scaled(int32_t number, int32_t multiplier, int32_t right)
{
    int64_t product = (int64_t)number * multiplier + dtn_cm_half((uint32_t)number);
    return (((int32_t)(product >> 31) >> (right - 1)) + 1) >> 1;
}

void dtn_cm_lstm_gates(const int32_t *input_sums, dtn_cm_lstm_factor_t input_factor, const int32_t *hidden_sums,
                       dtn_cm_lstm_factor_t hidden_factor, int16_t *gates, size_t count)
{
    if (input_factor.shift >= 0 || hidden_factor.shift >= 0) {
        dtn_cm_lstm_gates_general(input_sums, input_factor, hidden_sums, hidden_factor, gates, count);
        return;
    }
    const int32_t input_right = -input_factor.shift, hidden_right = -hidden_factor.shift;
    for (size_t i = 0; i < count; i++) {
        int32_t a = dtn_cm_saturated_s16(scaled(input_sums[i], input_factor.multiplier, input_right));
        int32_t b = scaled(hidden_sums[i], hidden_factor.multiplier, hidden_right);
        gates[i] = (int16_t)dtn_cm_saturated_s16(dtn_cm_plus(a, b));
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
    if (scale->factor.shift >= 0) {
        dtn_cm_lstm_hidden_general(scale, gates, tanh, hidden, output, count);
        return;
    }
    const int32_t multiplier = scale->factor.multiplier, right = -scale->factor.shift, zero = scale->zero_point;
    for (size_t i = 0; i < count; i++) {
        int32_t value = dtn_cm_plus(scaled(gates[i] * tanh[i], multiplier, right), zero);
        int8_t number = (int8_t)dtn_cm_clamp(value, INT8_MIN, INT8_MAX);
        hidden[i] = number;
        output[i] = number;
    }
}
