/**
 * @file
 * Steps of recurrent layers over int8, which the operators of this directory and of TFLite share: the sums of the
 * gates, and the step of an LSTM. Callers have checked all numbers.
 */
#pragma once

#include "lstm_s8.h"

/** Most gates of a layer: those of an LSTM. */
enum { DTN_CM_MOST_GATES = 4 };

/** Gates of an LSTM in the order of their rows of weights. */
enum { DTN_CM_INPUT_GATE, DTN_CM_FORGET_GATE, DTN_CM_CELL_GATE, DTN_CM_OUTPUT_GATE };

/** The order of the rows of a sequence: [batches, steps], or with `time_major` 1 [steps, batches]. */
typedef struct {
    int32_t batches;
    int32_t steps;
    int32_t time_major;
    int32_t reverse; /**< 1: from the last row to the first */
} dtn_cm_sequence_t;

/** The row of a sequence in which a step reads its input and writes its output. */
static inline size_t dtn_cm_sequence_row(const dtn_cm_sequence_t *sequence, int32_t batch, int32_t step)
{
    int32_t time = sequence->reverse == 1 ? sequence->steps - 1 - step : step;
    return (size_t)(sequence->time_major == 1 ? time * sequence->batches + batch : batch * sequence->steps + time);
}

static inline bool dtn_cm_is_sequence(const dtn_cm_sequence_t *sequence)
{
    return (sequence->time_major == 0 || sequence->time_major == 1) &&
           (sequence->reverse == 0 || sequence->reverse == 1);
}

/** True for a factor that `dtn_cm_lstm_gates` takes: multiplier 0 or more, shift -31..30. */
static inline bool dtn_cm_is_lstm_factor(int32_t multiplier, int32_t shift)
{
    return multiplier >= 0 && shift >= -31 && shift <= 30;
}

/** The weights of hidden states, behind those of inputs of a value [gates, units, in_features + units]. */
static inline const int8_t *dtn_cm_hidden_weights(const dtn_tensor_t *weights, size_t gates, int32_t units,
                                                  int32_t in_features)
{
    const size_t of_inputs = gates * (size_t)(uint32_t)units * (uint32_t)in_features;
    /* The check refuses weights with fewer bytes. */
    return (const int8_t *)weights->data + (of_inputs <= weights->bytes ? of_inputs : 0);
}

/** Weights and factors of the gates. */
typedef struct {
    const int8_t *input_weights;  /**< [gates, units, in_features] */
    const int8_t *hidden_weights; /**< [gates, units, units] */
    const int32_t *starts;        /**< [2, gates, units]: of the sums over inputs, and over hidden states */
    const int32_t *input_multipliers;
    const int32_t *input_shifts;
    const int32_t *hidden_multipliers;
    const int32_t *hidden_shifts;
    size_t gates;
    size_t units;
    size_t in_features;
} dtn_cm_gates_t;

/** True if the factors and the numbers of features and units are in range. */
bool dtn_cm_are_gates(const dtn_cm_gates_t *layer, int32_t in_features, int32_t units);

/** The scaled sums of a gate over an input and over a hidden state, for all units, as `dtn_cm_lstm_gates` adds them. */
void dtn_cm_run_gate(const dtn_cm_gates_t *layer, size_t gate, const int8_t *input, const int8_t *hidden,
                     int16_t *numbers);

/** The same over the input only, and over the hidden state only. */
void dtn_cm_run_gate_apart(const dtn_cm_gates_t *layer, size_t gate, const int8_t *input, const int8_t *hidden,
                           int16_t *of_input, int16_t *of_hidden);

/** An LSTM: its gates, and the scales of its states. */
typedef struct {
    dtn_cm_gates_t gates;
    dtn_cm_lstm_hidden_t scale;
    int32_t cell_bits;
    int32_t cell_clip;
} dtn_cm_lstm_t;

/** The LSTM of a record, which has the fields of `dtn_tfl_lstm_params_t`. */
#define DTN_CM_LSTM_OF(p, in_weights, own_weights, first_sums)                                                         \
    {{(in_weights), (own_weights), (first_sums), (p)->input_multipliers, (p)->input_shifts, (p)->hidden_multipliers,   \
      (p)->hidden_shifts, DTN_CM_MOST_GATES, (size_t)(p)->units, (size_t)(p)->in_features},                            \
     {{(p)->out_multiplier, (p)->out_shift}, (p)->hidden_zp},                                                          \
     (p)->cell_bits,                                                                                                   \
     (p)->cell_clip}

/** True if the numbers of an LSTM are in range. */
bool dtn_cm_is_lstm(const dtn_cm_lstm_t *layer, int32_t in_features, int32_t units);

/** One step: reads `hidden`, changes the cells, and writes the new hidden state twice. `scratch` has 4 * units. */
void dtn_cm_lstm_step(const dtn_cm_lstm_t *layer, const int8_t *input, const int8_t *hidden, int16_t *cells,
                      int16_t *scratch, int8_t *next, int8_t *output);

/** sat8(zero_point + factor * numbers): int8 of int16 numbers. */
void dtn_cm_narrow(const dtn_cm_lstm_hidden_t *scale, const int16_t *numbers, int8_t *out, size_t count);
