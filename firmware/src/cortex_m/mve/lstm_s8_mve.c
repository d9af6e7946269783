#include <arm_mve.h>

#include "../inner_loops.h"
#include "../lstm_s8.h"
#include "double_rounding_mve.h"

/*
 * lstm_s8_portable.c with numbers in the lanes: eight of 16 bits, or four of 32 bits. `vqrdmulh` is its product,
 * rounded to nearest, ties up.
 */
enum { LANES = 4, SHORT_LANES = 8 };

/* Computes y before what needs x: GCC otherwise makes many predicates at once, and moves all but one away and back. */
#define DTN_CM_AFTER(x, y) __asm__("" : "+w"(x) : "w"(y))

/* exp(x - 1/8) for x from -1/8 to below 1/8 in steps of 2^-15. */
static inline int16x8_t exp_about_eighth(int16x8_t x)
{
    const int16_t at_eighth = 28918; /* exp(-1/8) */
    const int16_t third = 10923;
    int16x8_t x2 = vqrdmulhq_s16(x, x);
    int16x8_t x3 = vqrdmulhq_s16(x2, x);
    int16x8_t x4 = vrshrq_n_s16(vqrdmulhq_s16(x2, x2), 2);
    int16x8_t inner = vaddq_s16(vqrdmulhq_n_s16(vaddq_s16(x4, x3), third), x2);
    return vaddq_n_s16(vqrdmulhq_n_s16(vaddq_s16(x, vrshrq_n_s16(inner, 1)), at_eighth), at_eighth);
}

/* exp(a) in steps of 2^-15 for numbers below 0 with `whole` whole bits, 0..7; for 0 anything. */
static inline int16x8_t exponential(int16x8_t a, int32_t whole)
{
    /* exp(-2^k), k from -2 on. */
    static const int16_t powers[] = {25520, 19875, 12055, 4435, 600, 11, 0};
    int16x8_t rest = vandq_s16(vshlq_s16(a, vdupq_n_s16((int16_t)whole)), vdupq_n_s16(0x1FFF));
    int16x8_t result = exp_about_eighth(vsubq_n_s16(rest, 1 << 12));
    /* The quarters, from their lowest bit on in the uppermost one. */
    int16x8_t quarters = vmvnq_s16(vshlq_s16(a, vdupq_n_s16((int16_t)(whole - 13))));
    quarters = vbrsrq_n_s16(quarters, 16);
    for (int32_t i = 0; i < 7 && i < whole + 2; i++) {
        DTN_CM_AFTER(quarters, result);
        result = vqrdmulhq_m_n_s16(result, result, powers[i], vcmpltq_n_s16(quarters, 0));
        quarters = vaddq_s16(quarters, quarters);
    }
    if (whole > 5) { /* 0 below -32 */
        result = vpselq_s16(vdupq_n_s16(0), result, vcmpltq_n_s16(a, (int16_t)-(1 << (20 - whole))));
    }
    return result;
}

/* 1 / ((1 + x) / 2) less 1 for x from 0 to below 1, with two whole bits. */
static inline int16x8_t reciprocal(int16x8_t x)
{
    const int16_t a = 23130;  /* 48 / 17 */
    const int16_t b = -15420; /* -32 / 17 */
    int16x8_t half = vaddq_n_s16(vshrq_n_s16(x, 1), 1 << 14);
    int16x8_t y = vaddq_n_s16(vqrdmulhq_n_s16(half, b), a);
    for (int32_t i = 0; i < 3; i++) {
        int16x8_t error = vsubq_s16(vdupq_n_s16(1 << 13), vqrdmulhq_s16(half, y));
        y = vaddq_s16(y, vshlq_n_s16(vqrdmulhq_s16(y, error), 2));
    }
    return y;
}

/* The negative sizes of numbers: -2^15 fits. */
static inline int16x8_t negative(int16x8_t x)
{
    return vminq_s16(x, vqnegq_s16(x));
}

static inline int16x8_t tangent(int16x8_t x, int32_t whole)
{
    int16x8_t y = reciprocal(exponential(negative(x), whole + 1));
    y = vqshlq_n_s16(vsubq_n_s16(y, 1 << 13), 2);
    DTN_CM_AFTER(x, y);
    y = vnegq_m_s16(y, y, vcmpltq_n_s16(x, 0));
    return vpselq_s16(x, y, vcmpeqq_n_s16(x, 0));
}

/* The predicate of the first lanes, made after y. */
static inline mve_pred16_t first_of(size_t count, int16x8_t y)
{
    __asm__("" : "+r"(count) : "w"(y));
    return vctp16q((uint32_t)count);
}

void dtn_cm_lstm_logistic(int16_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i += SHORT_LANES) {
        int16x8_t x = vldrhq_z_s16(numbers + i, vctp16q((uint32_t)(count - i)));
        int16x8_t y = vqshlq_n_s16(reciprocal(exponential(negative(x), 3)), 1);
        DTN_CM_AFTER(x, y);
        y = vsubq_m_s16(y, vdupq_n_s16(INT16_MAX), y, vcmpltq_n_s16(x, 0));
        y = vpselq_s16(vdupq_n_s16(1 << 14), y, vcmpeqq_n_s16(x, 0));
        vstrhq_p_s16(numbers + i, y, first_of(count - i, y));
    }
}

void dtn_cm_lstm_tanh(const int16_t *numbers, int32_t whole, int16_t *out, size_t count)
{
    for (size_t i = 0; i < count; i += SHORT_LANES) {
        int16x8_t x = vldrhq_z_s16(numbers + i, vctp16q((uint32_t)(count - i)));
        int16x8_t y = whole == 3 ? tangent(x, 3) : tangent(x, whole);
        vstrhq_p_s16(out + i, y, first_of(count - i, y));
    }
}

/* Numbers times a factor that shifts to the right. */
static inline int32x4_t scaled(int32x4_t numbers, int32_t multiplier, int32_t shift)
{
    return vrshlq_n_s32(dtn_cm_times(numbers, vdupq_n_s32(multiplier)), shift);
}

static inline int32x4_t held(int32x4_t numbers, int32_t lo, int32_t hi)
{
    return vminq_s32(vmaxq_s32(numbers, vdupq_n_s32(lo)), vdupq_n_s32(hi));
}

/* Four scaled sums of inputs and of hidden states as gates. */
static inline int32x4_t joined(int32x4_t of_input, int32x4_t of_hidden)
{
    return held(vaddq_s32(held(of_input, INT16_MIN, INT16_MAX), of_hidden), INT16_MIN, INT16_MAX);
}

void dtn_cm_lstm_gates(const int32_t *input_sums, dtn_cm_lstm_factor_t input_factor, const int32_t *hidden_sums,
                       dtn_cm_lstm_factor_t hidden_factor, int16_t *gates, size_t count)
{
    if (input_factor.shift >= 0 || hidden_factor.shift >= 0) {
        int32_t of_input[DTN_CM_ROW_SUMS], of_hidden[DTN_CM_ROW_SUMS];
        dtn_cm_lstm_scale(input_sums, input_factor, of_input, count);
        dtn_cm_lstm_scale(hidden_sums, hidden_factor, of_hidden, count);
        for (size_t i = 0; i < count; i += LANES) {
            const mve_pred16_t there = vctp32q((uint32_t)(count - i));
            int32x4_t a = vldrwq_z_s32(of_input + i, there), b = vldrwq_z_s32(of_hidden + i, there);
            vstrhq_p_s32(gates + i, joined(a, b), there);
        }
        return;
    }
    for (size_t i = 0; i < count; i += LANES) {
        const mve_pred16_t there = vctp32q((uint32_t)(count - i));
        int32x4_t a = scaled(vldrwq_z_s32(input_sums + i, there), input_factor.multiplier, input_factor.shift);
        int32x4_t b = scaled(vldrwq_z_s32(hidden_sums + i, there), hidden_factor.multiplier, hidden_factor.shift);
        vstrhq_p_s32(gates + i, joined(a, b), there);
    }
}

void dtn_cm_lstm_cells(const dtn_cm_lstm_gates_t *gates, int32_t bits, int32_t clip, int16_t *cells, size_t count)
{
    const int16_t *input = gates->input, *forget = gates->forget, *cell = gates->cell;
    const int32_t lo = clip > 0 ? -clip : INT16_MIN, hi = clip > 0 ? clip : INT16_MAX;
    for (size_t i = 0; i < count; i += LANES) {
        const mve_pred16_t there = vctp32q((uint32_t)(count - i));
        int32x4_t kept = vmulq_s32(vldrhq_z_s32(forget + i, there), vldrhq_z_s32(cells + i, there));
        int32x4_t added = vmulq_s32(vldrhq_z_s32(input + i, there), vldrhq_z_s32(cell + i, there));
        /* Ties away from zero: those below zero get 1 less. */
        kept = vrshrq_n_s32(vaddq_s32(kept, vshrq_n_s32(kept, 31)), 15);
        added = vrshlq_n_s32(vaddq_s32(added, vshrq_n_s32(added, 31)), -15 - bits);
        vstrhq_p_s32(cells + i, held(vaddq_s32(kept, added), lo, hi), there);
    }
}

void dtn_cm_lstm_hidden(const dtn_cm_lstm_hidden_t *scale, const int16_t *gates, const int16_t *tanh, int8_t *hidden,
                        int8_t *output, size_t count)
{
    const dtn_cm_lstm_hidden_t s = *scale; /* a copy, which no store can change */
    if (s.factor.shift >= 0) {
        dtn_cm_lstm_hidden_general(&s, gates, tanh, hidden, output, count);
        return;
    }
    for (size_t i = 0; i < count; i += LANES) {
        const mve_pred16_t there = vctp32q((uint32_t)(count - i));
        int32x4_t numbers = vmulq_s32(vldrhq_z_s32(gates + i, there), vldrhq_z_s32(tanh + i, there));
        numbers =
            held(vaddq_n_s32(scaled(numbers, s.factor.multiplier, s.factor.shift), s.zero_point), INT8_MIN, INT8_MAX);
        vstrbq_p_s32(hidden + i, numbers, there);
        vstrbq_p_s32(output + i, numbers, there);
    }
}
