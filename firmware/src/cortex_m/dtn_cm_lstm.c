/*
 * A layer of an LSTM in one direction. Each step reads the hidden state in the row of the output that the step before
 * wrote.
 */
#include <string.h>

#include "recurrent_s8.h"

typedef dtn_cm_lstm_params_t params_t;

enum { INPUT, WEIGHTS, STARTS, INITIAL_HIDDEN, INITIAL_CELL, GATES, CELL_STATE, OUTPUT };

static dtn_cm_lstm_t layer_of(const dtn_operator_call_t *call)
{
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_cm_lstm_t layer =
        DTN_CM_LSTM_OF(p, (const int8_t *)call->values[WEIGHTS].data,
                       dtn_cm_hidden_weights(&call->values[WEIGHTS], DTN_CM_MOST_GATES, p->units, p->in_features),
                       (const int32_t *)call->values[STARTS].data);
    return layer;
}

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, GATES, OUTPUT + 1 - GATES, params_t)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *values = call->values;
    const dtn_cm_lstm_t layer = layer_of(call);
    const dtn_cm_sequence_t sequence = {p->batches, p->steps, p->time_major, p->reverse};
    return dtn_cm_is_lstm(&layer, p->in_features, p->units) && dtn_cm_is_sequence(&sequence) &&
           dtn_cm_are(&values[INPUT], 2, DTN_TYPE_S8) && values[STARTS].type == DTN_TYPE_S32 &&
           values[INITIAL_HIDDEN].type == DTN_TYPE_S8 && dtn_cm_are(&values[INITIAL_CELL], 3, DTN_TYPE_S16) &&
           values[OUTPUT].type == DTN_TYPE_S8 &&
           dtn_cm_has_size(&values[INPUT], DTN_CM_LIST(p->batches, p->steps, p->in_features)) &&
           dtn_cm_has_size(&values[WEIGHTS], DTN_CM_LIST(DTN_CM_MOST_GATES, p->units, p->in_features + p->units)) &&
           dtn_cm_has_size(&values[STARTS], DTN_CM_LIST(4, 2, DTN_CM_MOST_GATES, p->units)) &&
           dtn_cm_has_size(&values[INITIAL_HIDDEN], DTN_CM_LIST(p->batches, p->units)) &&
           dtn_cm_has_size(&values[INITIAL_CELL], DTN_CM_LIST(2, p->batches, p->units)) &&
           dtn_cm_has_size(&values[GATES], DTN_CM_LIST(2, DTN_CM_MOST_GATES, p->units)) &&
           values[CELL_STATE].bytes == values[INITIAL_CELL].bytes &&
           dtn_cm_has_size(&values[OUTPUT], DTN_CM_LIST(p->batches, p->steps, p->units));
}

int32_t dtn_cm_lstm(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_cm_lstm_t layer = layer_of(call);
    const dtn_cm_sequence_t sequence = {p->batches, p->steps, p->time_major, p->reverse};
    const size_t units = layer.gates.units, in_features = layer.gates.in_features;
    const int8_t *input = (const int8_t *)call->values[INPUT].data;
    int8_t *output = (int8_t *)call->values[OUTPUT].data;
    int16_t *gates = (int16_t *)call->values[GATES].data;
    int16_t *cells = (int16_t *)call->values[CELL_STATE].data;
    memcpy(cells, call->values[INITIAL_CELL].data, call->values[CELL_STATE].bytes);
    for (int32_t batch = 0; batch < p->batches; batch++) {
        const int8_t *hidden = (const int8_t *)call->values[INITIAL_HIDDEN].data + (size_t)batch * units;
        for (int32_t step = 0; step < p->steps; step++) {
            size_t row = dtn_cm_sequence_row(&sequence, batch, step);
            int8_t *next = output + row * units;
            dtn_cm_lstm_step(&layer, input + row * in_features, hidden, cells + (size_t)batch * units, gates, next,
                             next);
            hidden = next;
        }
    }
    return DTN_OK;
}
