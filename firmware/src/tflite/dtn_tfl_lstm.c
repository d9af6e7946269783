#include "../cortex_m/recurrent_s8.h"
#include "deuteron/tflite.h"

typedef dtn_tfl_lstm_params_t params_t;

enum { INPUT, INPUT_WEIGHTS, HIDDEN_WEIGHTS, STARTS, GATES, HIDDEN, CELL_STATE, OUTPUT };

static dtn_cm_lstm_t layer_of(const dtn_operator_call_t *call)
{
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *values = call->values;
    const dtn_cm_lstm_t layer =
        DTN_CM_LSTM_OF(p, (const int8_t *)values[INPUT_WEIGHTS].data, (const int8_t *)values[HIDDEN_WEIGHTS].data,
                       (const int32_t *)values[STARTS].data);
    return layer;
}

static dtn_cm_sequence_t sequence_of(const params_t *p)
{
    const dtn_cm_sequence_t sequence = {p->batches, p->steps, p->time_major, p->reverse};
    return sequence;
}

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, GATES, OUTPUT + 1 - GATES, params_t)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *values = call->values;
    const dtn_cm_lstm_t layer = layer_of(call);
    const dtn_cm_sequence_t sequence = sequence_of(p);
    return dtn_cm_is_lstm(&layer, p->in_features, p->units) && dtn_cm_is_sequence(&sequence) &&
           values[INPUT].type == DTN_TYPE_S8 && dtn_cm_are(&values[INPUT_WEIGHTS], 2, DTN_TYPE_S8) &&
           values[STARTS].type == DTN_TYPE_S32 && values[GATES].type == DTN_TYPE_S16 &&
           values[HIDDEN].type == DTN_TYPE_S8 && values[CELL_STATE].type == DTN_TYPE_S16 &&
           values[OUTPUT].type == DTN_TYPE_S8 &&
           dtn_cm_has_size(&values[INPUT], DTN_CM_LIST(p->batches, p->steps, p->in_features)) &&
           dtn_cm_has_size(&values[INPUT_WEIGHTS], DTN_CM_LIST(DTN_CM_MOST_GATES, p->units, p->in_features)) &&
           dtn_cm_has_size(&values[HIDDEN_WEIGHTS], DTN_CM_LIST(DTN_CM_MOST_GATES, p->units, p->units)) &&
           dtn_cm_has_size(&values[STARTS], DTN_CM_LIST(4, 2, DTN_CM_MOST_GATES, p->units)) &&
           dtn_cm_has_size(&values[GATES], DTN_CM_LIST(2, DTN_CM_MOST_GATES, p->units)) &&
           dtn_cm_has_size(&values[HIDDEN], DTN_CM_LIST(p->batches, p->units)) &&
           dtn_cm_has_size(&values[CELL_STATE], DTN_CM_LIST(2, p->batches, p->units)) &&
           dtn_cm_has_size(&values[OUTPUT], DTN_CM_LIST(p->batches, p->steps, p->units));
}

int32_t dtn_tfl_lstm(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_cm_lstm_t layer = layer_of(call);
    const dtn_cm_sequence_t sequence = sequence_of(p);
    const size_t units = layer.gates.units, in_features = layer.gates.in_features;
    const int8_t *input = (const int8_t *)call->values[INPUT].data;
    int8_t *output = (int8_t *)call->values[OUTPUT].data;
    int16_t *gates = (int16_t *)call->values[GATES].data;
    for (int32_t batch = 0; batch < p->batches; batch++) {
        int8_t *hidden = (int8_t *)call->values[HIDDEN].data + (size_t)batch * units;
        int16_t *cells = (int16_t *)call->values[CELL_STATE].data + (size_t)batch * units;
        for (int32_t step = 0; step < p->steps; step++) {
            size_t at = dtn_cm_sequence_row(&sequence, batch, step);
            dtn_cm_lstm_step(&layer, input + at * in_features, hidden, cells, gates, hidden, output + at * units);
        }
    }
    return DTN_OK;
}
