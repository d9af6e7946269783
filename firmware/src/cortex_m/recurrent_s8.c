#include "recurrent_s8.h"

#include <string.h>

#include "inner_loops.h"

bool dtn_cm_are_gates(const dtn_cm_gates_t *layer, int32_t in_features, int32_t units)
{
    for (size_t gate = 0; gate < layer->gates; gate++) {
        if (!dtn_cm_is_lstm_factor(layer->input_multipliers[gate], layer->input_shifts[gate]) ||
            !dtn_cm_is_lstm_factor(layer->hidden_multipliers[gate], layer->hidden_shifts[gate])) {
            return false;
        }
    }
    return in_features >= 1 && in_features <= DTN_CM_MAX_PRODUCTS && units >= 1 && units <= DTN_CM_MAX_PRODUCTS;
}

/* Products of one of two operands: those of the input, or of the hidden state. */
static void add_products(const int8_t *numbers, const int8_t *weights, const int32_t *starts, size_t depth,
                         size_t first, size_t count, uint32_t *sums)
{
    memcpy(sums, starts + first, count * sizeof *sums);
    dtn_cm_add_row(numbers, 0, weights + first * depth, depth, count, sums);
}

/* Sums of up to DTN_CM_ROW_SUMS units from `first` on, which counts the units of the gates before. */
typedef struct {
    uint32_t of_input[DTN_CM_ROW_SUMS];
    uint32_t of_hidden[DTN_CM_ROW_SUMS];
    size_t count;
} sums_t;

static void sum_units(const dtn_cm_gates_t *layer, size_t gate, size_t unit, const int8_t *input, const int8_t *hidden,
                      sums_t *sums)
{
    const size_t units = layer->units, first = gate * units + unit;
    sums->count = units - unit < DTN_CM_ROW_SUMS ? units - unit : DTN_CM_ROW_SUMS;
    add_products(input, layer->input_weights, layer->starts, layer->in_features, first, sums->count, sums->of_input);
    add_products(hidden, layer->hidden_weights, layer->starts + layer->gates * units, units, first, sums->count,
                 sums->of_hidden);
}

void dtn_cm_run_gate(const dtn_cm_gates_t *layer, size_t gate, const int8_t *input, const int8_t *hidden,
                     int16_t *numbers)
{
    const dtn_cm_lstm_factor_t input_factor = {layer->input_multipliers[gate], layer->input_shifts[gate]};
    const dtn_cm_lstm_factor_t hidden_factor = {layer->hidden_multipliers[gate], layer->hidden_shifts[gate]};
    sums_t sums;
    for (size_t unit = 0; unit < layer->units; unit += DTN_CM_ROW_SUMS) {
        sum_units(layer, gate, unit, input, hidden, &sums);
        dtn_cm_lstm_gates((const int32_t *)sums.of_input, input_factor, (const int32_t *)sums.of_hidden, hidden_factor,
                          numbers + unit, sums.count);
    }
}

void dtn_cm_run_gate_apart(const dtn_cm_gates_t *layer, size_t gate, const int8_t *input, const int8_t *hidden,
                           int16_t *of_input, int16_t *of_hidden)
{
    static const int32_t none[DTN_CM_ROW_SUMS];
    const dtn_cm_lstm_factor_t input_factor = {layer->input_multipliers[gate], layer->input_shifts[gate]};
    const dtn_cm_lstm_factor_t hidden_factor = {layer->hidden_multipliers[gate], layer->hidden_shifts[gate]};
    sums_t sums;
    for (size_t unit = 0; unit < layer->units; unit += DTN_CM_ROW_SUMS) {
        sum_units(layer, gate, unit, input, hidden, &sums);
        dtn_cm_lstm_gates((const int32_t *)sums.of_input, input_factor, none, input_factor, of_input + unit,
                          sums.count);
        dtn_cm_lstm_gates((const int32_t *)sums.of_hidden, hidden_factor, none, hidden_factor, of_hidden + unit,
                          sums.count);
    }
}

bool dtn_cm_is_lstm(const dtn_cm_lstm_t *layer, int32_t in_features, int32_t units)
{
    return dtn_cm_are_gates(&layer->gates, in_features, units) && dtn_cm_is_s8(layer->scale.zero_point) &&
           dtn_cm_is_lstm_factor(layer->scale.factor.multiplier, layer->scale.factor.shift) && layer->cell_bits >= 0 &&
           layer->cell_bits <= DTN_CM_MOST_CELL_BITS && layer->cell_clip >= 0 && layer->cell_clip <= INT16_MAX;
}

void dtn_cm_lstm_step(const dtn_cm_lstm_t *layer, const int8_t *input, const int8_t *hidden, int16_t *cells,
                      int16_t *scratch, int8_t *next, int8_t *output)
{
    const size_t units = layer->gates.units;
    int16_t *gates[DTN_CM_MOST_GATES];
    for (size_t gate = 0; gate < DTN_CM_MOST_GATES; gate++) {
        gates[gate] = scratch + gate * units;
        dtn_cm_run_gate(&layer->gates, gate, input, hidden, gates[gate]);
    }
    dtn_cm_lstm_logistic(gates[DTN_CM_INPUT_GATE], 2 * units); /* of the forget gate, too */
    dtn_cm_lstm_tanh(gates[DTN_CM_CELL_GATE], 3, gates[DTN_CM_CELL_GATE], units);
    dtn_cm_lstm_logistic(gates[DTN_CM_OUTPUT_GATE], units);
    const dtn_cm_lstm_gates_t of_cells = {gates[DTN_CM_INPUT_GATE], gates[DTN_CM_FORGET_GATE], gates[DTN_CM_CELL_GATE]};
    dtn_cm_lstm_cells(&of_cells, layer->cell_bits, layer->cell_clip, cells, units);
    int16_t *tanh = gates[DTN_CM_CELL_GATE]; /* which nothing needs any more */
    dtn_cm_lstm_tanh(cells, layer->cell_bits, tanh, units);
    dtn_cm_lstm_hidden(&layer->scale, gates[DTN_CM_OUTPUT_GATE], tanh, next, output, units);
}

void dtn_cm_narrow(const dtn_cm_lstm_hidden_t *scale, const int16_t *numbers, int8_t *out, size_t count)
{
    const dtn_cm_lstm_factor_t factor = scale->factor;
    for (size_t i = 0; i < count; i++) {
        int32_t number = dtn_cm_requantize(numbers[i], factor.multiplier, factor.shift);
        out[i] = (int8_t)dtn_cm_clamp(dtn_cm_plus(number, scale->zero_point), INT8_MIN, INT8_MAX);
    }
}
