/* A plain recurrent layer in one direction: its state is the row of the output that the step before wrote. */
#include "recurrent_s8.h"

typedef dtn_cm_rnn_params_t params_t;

enum { INPUT, WEIGHTS, STARTS, INITIAL_HIDDEN, GATES, OUTPUT };

static dtn_cm_gates_t layer_of(const dtn_operator_call_t *call)
{
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_cm_gates_t layer = {(const int8_t *)call->values[WEIGHTS].data,
                                  dtn_cm_hidden_weights(&call->values[WEIGHTS], 1, p->units, p->in_features),
                                  (const int32_t *)call->values[STARTS].data,
                                  &p->input_multiplier,
                                  &p->input_shift,
                                  &p->hidden_multiplier,
                                  &p->hidden_shift,
                                  1,
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
    return dtn_cm_are_gates(&layer, p->in_features, p->units) && dtn_cm_is_sequence(&sequence) &&
           (p->relu == 0 || p->relu == 1) && dtn_cm_is_s8(p->hidden_zp) &&
           dtn_cm_is_lstm_factor(p->out_multiplier, p->out_shift) && dtn_cm_are(&values[INPUT], 2, DTN_TYPE_S8) &&
           values[STARTS].type == DTN_TYPE_S32 && values[INITIAL_HIDDEN].type == DTN_TYPE_S8 &&
           values[GATES].type == DTN_TYPE_S16 && values[OUTPUT].type == DTN_TYPE_S8 &&
           dtn_cm_has_size(&values[INPUT], DTN_CM_LIST(p->batches, p->steps, p->in_features)) &&
           dtn_cm_has_size(&values[WEIGHTS], DTN_CM_LIST(p->units, p->in_features + p->units)) &&
           dtn_cm_has_size(&values[STARTS], DTN_CM_LIST(4, 2, p->units)) &&
           dtn_cm_has_size(&values[INITIAL_HIDDEN], DTN_CM_LIST(p->batches, p->units)) &&
           dtn_cm_has_size(&values[GATES], DTN_CM_LIST(2, p->units)) &&
           dtn_cm_has_size(&values[OUTPUT], DTN_CM_LIST(p->batches, p->steps, p->units));
}

int32_t dtn_cm_rnn(const dtn_operator_call_t *call, dtn_phase_t phase)
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
    int16_t *gate = (int16_t *)call->values[GATES].data;
    for (int32_t batch = 0; batch < p->batches; batch++) {
        const int8_t *hidden = (const int8_t *)call->values[INITIAL_HIDDEN].data + (size_t)batch * layer.units;
        for (int32_t step = 0; step < p->steps; step++) {
            size_t row = dtn_cm_sequence_row(&sequence, batch, step);
            dtn_cm_run_gate(&layer, 0, input + row * layer.in_features, hidden, gate);
            if (p->relu == 1) {
                for (size_t i = 0; i < layer.units; i++) {
                    gate[i] = gate[i] > 0 ? gate[i] : 0;
                }
            } else {
                dtn_cm_lstm_tanh(gate, 3, gate, layer.units);
            }
            dtn_cm_narrow(&scale, gate, output + row * layer.units, layer.units);
            hidden = output + row * layer.units;
        }
    }
    return DTN_OK;
}
