/*
 * A layer of GRU in one direction. The state has 16 bits, so that small updates are not lost; products with weights
 * read it in 8 bits, in the row of the output that the step before wrote.
 */
#include <string.h>

#include "recurrent_s8.h"

typedef dtn_cm_gru_params_t params_t;

enum { INPUT, WEIGHTS, STARTS, INITIAL_STATE, GATES, STATE, OUTPUT };

/* Gates in the order of their rows of weights; the last rows of scratch have the states' part of the new gate. */
enum { RESET_GATE, UPDATE_GATE, NEW_GATE, GATE_COUNT, SCRATCH_ROWS };

static dtn_cm_gates_t layer_of(const dtn_operator_call_t *call)
{
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_cm_gates_t layer = {(const int8_t *)call->values[WEIGHTS].data,
                                  dtn_cm_hidden_weights(&call->values[WEIGHTS], GATE_COUNT, p->units, p->in_features),
                                  (const int32_t *)call->values[STARTS].data,
                                  p->input_multipliers,
                                  p->input_shifts,
                                  p->hidden_multipliers,
                                  p->hidden_shifts,
                                  GATE_COUNT,
                                  (size_t)p->units,
                                  (size_t)p->in_features};
    return layer;
}

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, GATES, OUTPUT + 1 - GATES, params_t)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *values = call->values;
    const dtn_cm_gates_t layer = layer_of(call);
    const dtn_cm_sequence_t sequence = {p->batches, p->steps, p->time_major, p->reverse};
    return dtn_cm_are_gates(&layer, p->in_features, p->units) && dtn_cm_is_sequence(&sequence) && p->state_bits >= 0 &&
           p->state_bits <= DTN_CM_MOST_CELL_BITS && dtn_cm_is_s8(p->hidden_zp) &&
           dtn_cm_is_lstm_factor(p->out_multiplier, p->out_shift) && dtn_cm_are(&values[INPUT], 2, DTN_TYPE_S8) &&
           values[STARTS].type == DTN_TYPE_S32 && dtn_cm_are(&values[INITIAL_STATE], 3, DTN_TYPE_S16) &&
           values[OUTPUT].type == DTN_TYPE_S8 &&
           dtn_cm_has_size(&values[INPUT], DTN_CM_LIST(p->batches, p->steps, p->in_features)) &&
           dtn_cm_has_size(&values[WEIGHTS], DTN_CM_LIST(GATE_COUNT, p->units, p->in_features + p->units)) &&
           dtn_cm_has_size(&values[STARTS], DTN_CM_LIST(4, 2, GATE_COUNT, p->units)) &&
           dtn_cm_has_size(&values[INITIAL_STATE], DTN_CM_LIST(2, p->batches, p->units)) &&
           dtn_cm_has_size(&values[GATES], DTN_CM_LIST(2, SCRATCH_ROWS, p->units)) &&
           values[STATE].bytes == values[INITIAL_STATE].bytes &&
           dtn_cm_has_size(&values[OUTPUT], DTN_CM_LIST(p->batches, p->steps, p->units));
}

/* new + reset * hidden, saturated; `hidden` is the states' part of the new gate. */
static void add_reset(const int16_t *reset, const int16_t *hidden, int16_t *gate, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int32_t product = reset[i] * hidden[i];
        /* Ties away from zero, as the products of the state. */
        int32_t share = (product + (product >> 31) + (1 << 14)) >> 15;
        gate[i] = (int16_t)dtn_cm_saturated_s16(gate[i] + share);
    }
}

static void run_step(const params_t *p, const dtn_cm_gates_t *layer, const int8_t *input, const int8_t *hidden,
                     int16_t *scratch, int16_t *state)
{
    const size_t units = layer->units;
    int16_t *reset = scratch, *update = scratch + units, *gate = update + units, *of_state = gate + units;
    dtn_cm_run_gate(layer, RESET_GATE, input, hidden, reset);
    dtn_cm_run_gate(layer, UPDATE_GATE, input, hidden, update);
    dtn_cm_run_gate_apart(layer, NEW_GATE, input, hidden, gate, of_state);
    dtn_cm_lstm_logistic(reset, 2 * units); /* of the update gate, too */
    add_reset(reset, of_state, gate, units);
    dtn_cm_lstm_tanh(gate, 3, gate, units);
    for (size_t i = 0; i < units; i++) {
        reset[i] = (int16_t)(INT16_MAX - update[i]);
    }
    const dtn_cm_lstm_gates_t of_states = {reset, update, gate};
    dtn_cm_lstm_cells(&of_states, p->state_bits, 0, state, units);
}

int32_t dtn_cm_gru(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_cm_gates_t layer = layer_of(call);
    const dtn_cm_sequence_t sequence = {p->batches, p->steps, p->time_major, p->reverse};
    const dtn_cm_lstm_hidden_t scale = {{p->out_multiplier, p->out_shift}, p->hidden_zp};
    const int8_t *input = (const int8_t *)call->values[INPUT].data;
    int8_t *output = (int8_t *)call->values[OUTPUT].data;
    int16_t *gates = (int16_t *)call->values[GATES].data;
    memcpy(call->values[STATE].data, call->values[INITIAL_STATE].data, call->values[STATE].bytes);
    for (int32_t batch = 0; batch < p->batches; batch++) {
        int16_t *state = (int16_t *)call->values[STATE].data + (size_t)batch * layer.units;
        int8_t *hidden = output + dtn_cm_sequence_row(&sequence, batch, 0) * layer.units;
        /* The first row has the initial state until the first step has read it. */
        dtn_cm_narrow(&scale, state, hidden, layer.units);
        for (int32_t step = 0; step < p->steps; step++) {
            size_t row = dtn_cm_sequence_row(&sequence, batch, step);
            run_step(p, &layer, input + row * layer.in_features, hidden, gates, state);
            hidden = output + row * layer.units;
            dtn_cm_narrow(&scale, state, hidden, layer.units);
        }
    }
    return DTN_OK;
}
