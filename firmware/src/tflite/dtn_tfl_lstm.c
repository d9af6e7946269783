#include <string.h>

#include "../cortex_m/inner_loops.h"
#include "../cortex_m/lstm_s8.h"
#include "integer_common.h"

typedef dtn_tfl_lstm_params_t params_t;

enum { INPUT, INPUT_WEIGHTS, HIDDEN_WEIGHTS, STARTS, GATES, HIDDEN, CELL_STATE, OUTPUT };

/* Gates in the order of their rows of weights. */
enum { INPUT_GATE, FORGET_GATE, CELL_GATE, OUTPUT_GATE, GATE_COUNT };

static bool are_numbers(const params_t *p)
{
    for (size_t gate = 0; gate < GATE_COUNT; gate++) {
        if (!dtn_tfl_is_factor(p->input_multipliers[gate], p->input_shifts[gate]) ||
            !dtn_tfl_is_factor(p->hidden_multipliers[gate], p->hidden_shifts[gate])) {
            return false;
        }
    }
    return p->in_features >= 1 && p->in_features <= DTN_CM_MAX_PRODUCTS && p->units >= 1 &&
           p->units <= DTN_CM_MAX_PRODUCTS && (p->time_major == 0 || p->time_major == 1) &&
           dtn_cm_is_s8(p->hidden_zp) && dtn_tfl_is_factor(p->out_multiplier, p->out_shift) && p->cell_bits >= 0 &&
           p->cell_bits <= DTN_CM_MOST_CELL_BITS && p->cell_clip >= 0 && p->cell_clip <= INT16_MAX;
}

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, GATES, OUTPUT + 1 - GATES, params_t)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *values = call->values;
    return are_numbers(p) && values[INPUT].type == DTN_TYPE_S8 && dtn_cm_are(&values[INPUT_WEIGHTS], 2, DTN_TYPE_S8) &&
           values[STARTS].type == DTN_TYPE_S32 && values[GATES].type == DTN_TYPE_S16 &&
           values[HIDDEN].type == DTN_TYPE_S8 && values[CELL_STATE].type == DTN_TYPE_S16 &&
           values[OUTPUT].type == DTN_TYPE_S8 &&
           dtn_cm_has_size(&values[INPUT], DTN_CM_LIST(p->batches, p->steps, p->in_features)) &&
           dtn_cm_has_size(&values[INPUT_WEIGHTS], DTN_CM_LIST(GATE_COUNT, p->units, p->in_features)) &&
           dtn_cm_has_size(&values[HIDDEN_WEIGHTS], DTN_CM_LIST(GATE_COUNT, p->units, p->units)) &&
           dtn_cm_has_size(&values[STARTS], DTN_CM_LIST(4, 2, GATE_COUNT, p->units)) &&
           dtn_cm_has_size(&values[GATES], DTN_CM_LIST(2, GATE_COUNT, p->units)) &&
           dtn_cm_has_size(&values[HIDDEN], DTN_CM_LIST(p->batches, p->units)) &&
           dtn_cm_has_size(&values[CELL_STATE], DTN_CM_LIST(2, p->batches, p->units)) &&
           dtn_cm_has_size(&values[OUTPUT], DTN_CM_LIST(p->batches, p->steps, p->units));
}

/* Products of one of two operands: those of the input, or of the hidden state. */
static void add_products(const int8_t *numbers, const dtn_tensor_t *weights, const int32_t *starts, size_t depth,
                         size_t first, size_t count, uint32_t *sums)
{
    memcpy(sums, starts + first, count * sizeof *sums);
    dtn_cm_add_row(numbers, 0, (const int8_t *)weights->data + first * depth, depth, count, sums);
}

/* The numbers of a gate before its activation function, with three whole bits. */
static void run_gate(const dtn_operator_call_t *call, size_t gate, const int8_t *input, const int8_t *hidden,
                     int16_t *numbers)
{
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *values = call->values;
    const size_t units = (size_t)p->units;
    const int32_t *starts = (const int32_t *)values[STARTS].data;
    const dtn_cm_lstm_factor_t input_factor = {p->input_multipliers[gate], p->input_shifts[gate]};
    const dtn_cm_lstm_factor_t hidden_factor = {p->hidden_multipliers[gate], p->hidden_shifts[gate]};
    for (size_t unit = 0; unit < units; unit += DTN_CM_ROW_SUMS) {
        uint32_t of_input[DTN_CM_ROW_SUMS], of_hidden[DTN_CM_ROW_SUMS];
        const size_t count = units - unit < DTN_CM_ROW_SUMS ? units - unit : DTN_CM_ROW_SUMS;
        const size_t first = gate * units + unit;
        add_products(input, &values[INPUT_WEIGHTS], starts, (size_t)p->in_features, first, count, of_input);
        add_products(hidden, &values[HIDDEN_WEIGHTS], starts + GATE_COUNT * units, units, first, count, of_hidden);
        dtn_cm_lstm_gates((const int32_t *)of_input, input_factor, (const int32_t *)of_hidden, hidden_factor,
                          numbers + unit, count);
    }
}

static void run_step(const dtn_operator_call_t *call, const int8_t *input, size_t batch, int8_t *output)
{
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const size_t units = (size_t)p->units;
    int8_t *hidden = (int8_t *)call->values[HIDDEN].data + batch * units;
    int16_t *cells = (int16_t *)call->values[CELL_STATE].data + batch * units;
    int16_t *gates[GATE_COUNT];
    for (size_t gate = 0; gate < GATE_COUNT; gate++) {
        gates[gate] = (int16_t *)call->values[GATES].data + gate * units;
        run_gate(call, gate, input, hidden, gates[gate]);
    }
    dtn_cm_lstm_logistic(gates[INPUT_GATE], 2 * units); /* of the forget gate, too */
    dtn_cm_lstm_tanh(gates[CELL_GATE], 3, gates[CELL_GATE], units);
    dtn_cm_lstm_logistic(gates[OUTPUT_GATE], units);
    const dtn_cm_lstm_gates_t of_cells = {gates[INPUT_GATE], gates[FORGET_GATE], gates[CELL_GATE]};
    dtn_cm_lstm_cells(&of_cells, p->cell_bits, p->cell_clip, cells, units);
    int16_t *tanh = gates[CELL_GATE]; /* which nothing needs any more */
    dtn_cm_lstm_tanh(cells, p->cell_bits, tanh, units);
    const dtn_cm_lstm_hidden_t scale = {{p->out_multiplier, p->out_shift}, p->hidden_zp};
    dtn_cm_lstm_hidden(&scale, gates[OUTPUT_GATE], tanh, hidden, output, units);
}

int32_t dtn_tfl_lstm(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const int8_t *input = (const int8_t *)call->values[INPUT].data;
    int8_t *output = (int8_t *)call->values[OUTPUT].data;
    size_t batches = (size_t)p->batches, steps = (size_t)p->steps;
    for (size_t batch = 0; batch < batches; batch++) {
        for (size_t step = 0; step < steps; step++) {
            size_t at = p->time_major == 1 ? step * batches + batch : batch * steps + step;
            run_step(call, input + at * (size_t)p->in_features, batch, output + at * (size_t)p->units);
        }
    }
    return DTN_OK;
}
