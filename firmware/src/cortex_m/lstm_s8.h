/**
 * @file
 * Inner loops of an LSTM of int8 with an int16 cell state, over the units of a step. Each kind of core has its own, as
 * inner_loops.h says; all give the same bytes.
 *
 * int16 values start at multiples of 2, int32 ones at multiples of 4, int8 ones anywhere. No count is 0.
 */
#pragma once

#include "cortex_m.h"

/** Most whole bits of a cell state. */
enum { DTN_CM_MOST_CELL_BITS = 6 };

/** A factor as `dtn_cm_requantize` has it, shift -31..30. */
typedef struct {
    int32_t multiplier;
    int32_t shift;
} dtn_cm_lstm_factor_t;

/** The nearest int16. */
static inline int32_t dtn_cm_saturated_s16(int32_t x)
{
    return dtn_cm_clamp(x, INT16_MIN, INT16_MAX);
}

/** lstm_s8.c: the sum of two scaled sums; the first scaled one is saturated, and so is the result. There are at most
 * DTN_CM_ROW_SUMS. */
void dtn_cm_lstm_gates(const int32_t *input_sums, dtn_cm_lstm_factor_t input_factor, const int32_t *hidden_sums,
                       dtn_cm_lstm_factor_t hidden_factor, int16_t *gates, size_t count);

/** lstm_s8.c: 1 / (1 + exp(-x)), in steps of 2^-15, in place of numbers with three whole bits. */
void dtn_cm_lstm_logistic(int16_t *numbers, size_t count);

/** lstm_s8.c: tanh, in steps of 2^-15, of numbers with `whole` whole bits, 0..DTN_CM_MOST_CELL_BITS. `out` may be
 * `numbers`. */
void dtn_cm_lstm_tanh(const int16_t *numbers, int32_t whole, int16_t *out, size_t count);

/** The gates of units behind their activation functions, in steps of 2^-15. */
typedef struct {
    const int16_t *input;
    const int16_t *forget;
    const int16_t *cell;
} dtn_cm_lstm_gates_t;

/** lstm_s8.c: forget * cells + input * cell with `bits` whole bits, held within -clip and clip. */
void dtn_cm_lstm_cells(const dtn_cm_lstm_gates_t *gates, int32_t bits, int32_t clip, int16_t *cells, size_t count);

/** Factor and zero point of the hidden state. */
typedef struct {
    dtn_cm_lstm_factor_t factor;
    int32_t zero_point;
} dtn_cm_lstm_hidden_t;

/** lstm_s8.c: the hidden state, twice: the output gate times tanh of the cells, scaled. */
void dtn_cm_lstm_hidden(const dtn_cm_lstm_hidden_t *scale, const int16_t *gates, const int16_t *tanh, int8_t *hidden,
                        int8_t *output, size_t count);

/** lstm_s8.c of cortex_m, for factors with any shift: sums times a factor. */
void dtn_cm_lstm_scale(const int32_t *sums, dtn_cm_lstm_factor_t factor, int32_t *scaled, size_t count);

/** `dtn_cm_lstm_hidden` for the factors that few layers have: in lstm_s8.c of cortex_m. */
void dtn_cm_lstm_hidden_general(const dtn_cm_lstm_hidden_t *scale, const int16_t *gates, const int16_t *tanh,
                                int8_t *hidden, int8_t *output, size_t count);
