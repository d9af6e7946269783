#include "lstm_s8.h"

void dtn_cm_lstm_gates_general(const int32_t *input_sums, dtn_cm_lstm_factor_t input_factor, const int32_t *hidden_sums,
                               dtn_cm_lstm_factor_t hidden_factor, int16_t *gates, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int32_t a = dtn_cm_requantize(input_sums[i], input_factor.multiplier, input_factor.shift);
        int32_t b = dtn_cm_requantize(hidden_sums[i], hidden_factor.multiplier, hidden_factor.shift);
        gates[i] = (int16_t)dtn_cm_saturated_s16(dtn_cm_plus(dtn_cm_saturated_s16(a), b));
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
