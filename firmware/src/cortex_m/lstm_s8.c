#include "lstm_s8.h"

/* Divided by 2, ties away from zero. */
static inline int32_t halved(int32_t value)
{
    return (value + (value >> 31) + 1) >> 1;
}

void dtn_cm_lstm_scale(const int32_t *sums, dtn_cm_lstm_factor_t factor, int32_t *scaled, size_t count)
{
    /* A loop for each kind of shift, so that none has to choose. A product without a shift is above -2^31. */
    for (size_t i = 0; i < count && factor.shift > 0; i++) {
        scaled[i] = dtn_cm_requantize(sums[i], factor.multiplier, factor.shift);
    }
    for (size_t i = 0; i < count && factor.shift == 0; i++) {
        scaled[i] = dtn_cm_requantize(sums[i], factor.multiplier, 0);
    }
    for (size_t i = 0; i < count && factor.shift == -1; i++) {
        scaled[i] = halved(dtn_cm_requantize(sums[i], factor.multiplier, 0));
    }
    for (size_t i = 0; i < count && factor.shift < -1; i++) {
        scaled[i] = dtn_cm_requantize(sums[i], factor.multiplier, factor.shift);
    }
}

void dtn_cm_lstm_hidden_general(const dtn_cm_lstm_hidden_t *scale, const int16_t *gates, const int16_t *tanh,
                                int8_t *hidden, int8_t *output, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int32_t number = dtn_cm_requantize(gates[i] * tanh[i], scale->factor.multiplier, scale->factor.shift);
        number = dtn_cm_clamp(dtn_cm_plus(number, scale->zero_point), INT8_MIN, INT8_MAX);
        hidden[i] = (int8_t)number;
        output[i] = (int8_t)number;
    }
}
