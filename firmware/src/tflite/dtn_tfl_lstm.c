#include "../cortex_m/dot_product_s8.h"
#include "fixed_point_s16.h"
#include "numbers.h"

typedef dtn_tfl_lstm_params_t params_t;

enum { INPUT, WEIGHTS, BIAS, GATES, HIDDEN, CELL_STATE, OUTPUT };

/* Gates in the order of their rows of weights. */
enum { INPUT_GATE, FORGET_GATE, CELL_GATE, OUTPUT_GATE, GATE_COUNT };

/* Most columns of the weights: each of the two sums of products has as many terms. */
enum { MOST_COLUMNS = DTN_CM_MAX_PRODUCTS };

static bool are_numbers(const params_t *p)
{
    for (size_t gate = 0; gate < GATE_COUNT; gate++) {
        if (!dtn_tfl_is_factor(p->input_multipliers[gate], p->input_shifts[gate]) ||
            !dtn_tfl_is_factor(p->hidden_multipliers[gate], p->hidden_shifts[gate])) {
            return false;
        }
    }
    return p->in_features >= 1 && p->in_features <= MOST_COLUMNS && p->units >= 1 && p->units <= MOST_COLUMNS &&
           (p->time_major == 0 || p->time_major == 1) && dtn_cm_is_s8(p->in_zp) && dtn_cm_is_s8(p->hidden_zp) &&
           dtn_tfl_is_factor(p->out_multiplier, p->out_shift) && p->cell_bits >= 0 &&
           p->cell_bits <= DTN_TFL_MOST_WHOLE_BITS && p->cell_clip >= 0 && p->cell_clip <= INT16_MAX;
}

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, GATES, OUTPUT + 1 - GATES, params_t)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *values = call->values;
    return are_numbers(p) && values[INPUT].type == DTN_TYPE_S8 && values[WEIGHTS].type == DTN_TYPE_S8 &&
           values[BIAS].type == DTN_TYPE_S32 && values[GATES].type == DTN_TYPE_S16 &&
           values[HIDDEN].type == DTN_TYPE_S8 && values[CELL_STATE].type == DTN_TYPE_S16 &&
           values[OUTPUT].type == DTN_TYPE_S8 &&
           dtn_cm_has_size(&values[INPUT], DTN_CM_LIST(p->batches, p->steps, p->in_features)) &&
           dtn_cm_has_size(&values[WEIGHTS], DTN_CM_LIST(GATE_COUNT, p->units, p->in_features + p->units)) &&
           dtn_cm_has_size(&values[BIAS], DTN_CM_LIST(4, GATE_COUNT, p->units)) &&
           dtn_cm_has_size(&values[GATES], DTN_CM_LIST(2, GATE_COUNT, p->units)) &&
           dtn_cm_has_size(&values[HIDDEN], DTN_CM_LIST(p->batches, p->units)) &&
           dtn_cm_has_size(&values[CELL_STATE], DTN_CM_LIST(2, p->batches, p->units)) &&
           dtn_cm_has_size(&values[OUTPUT], DTN_CM_LIST(p->batches, p->steps, p->units));
}

/* All gates of one step; numbers before the activation have three whole bits. */
static void run_gates(const dtn_operator_call_t *call, const int8_t *input, const int8_t *hidden)
{
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const int32_t *bias = (const int32_t *)call->values[BIAS].data;
    int16_t *gates = (int16_t *)call->values[GATES].data;
    size_t units = (size_t)p->units, features = (size_t)p->in_features, count = GATE_COUNT * units;
    size_t gate = 0, unit = 0;
    for (size_t first = 0; first < count; first += DTN_CM_ROWS) {
        const int8_t *rows[DTN_CM_ROWS];
        uint32_t of_input[DTN_CM_ROWS] = {0}, of_hidden[DTN_CM_ROWS] = {0};
        dtn_cm_rows_of((const int8_t *)call->values[WEIGHTS].data, features + units, first, count, rows);
        dtn_cm_add_dots(input, -p->in_zp, rows, 0, features, of_input);
        dtn_cm_add_dots(hidden, -p->hidden_zp, rows, features, units, of_hidden);
        for (size_t j = 0; j < DTN_CM_ROWS; j++) {
            int32_t sum = dtn_cm_plus((int32_t)of_input[j], bias[first + j]);
            int32_t a = dtn_cm_requantize(sum, p->input_multipliers[gate], p->input_shifts[gate]);
            int32_t b = dtn_cm_requantize((int32_t)of_hidden[j], p->hidden_multipliers[gate], p->hidden_shifts[gate]);
            int32_t x = dtn_tfl_saturated_s16(dtn_cm_plus(dtn_tfl_saturated_s16(a), b));
            gates[first + j] = (int16_t)(gate == CELL_GATE ? dtn_tfl_tanh_s16(x, 3) : dtn_tfl_logistic_s16(x));
            if (++unit == units) {
                unit = 0;
                gate++;
            }
        }
    }
}

static void run_step(const dtn_operator_call_t *call, const int8_t *input, size_t batch, int8_t *output)
{
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    size_t units = (size_t)p->units;
    const int16_t *gates = (const int16_t *)call->values[GATES].data;
    int8_t *hidden = (int8_t *)call->values[HIDDEN].data + batch * units;
    int16_t *cells = (int16_t *)call->values[CELL_STATE].data + batch * units;
    run_gates(call, input, hidden);
    for (size_t i = 0; i < units; i++) {
        int32_t kept = dtn_cm_divide_by_power(gates[FORGET_GATE * units + i] * cells[i], 15);
        int32_t added =
            dtn_cm_divide_by_power(gates[INPUT_GATE * units + i] * gates[CELL_GATE * units + i], 15 + p->cell_bits);
        int32_t cell = dtn_tfl_saturated_s16(kept + added);
        if (p->cell_clip > 0) {
            cell = dtn_cm_clamp(cell, -p->cell_clip, p->cell_clip);
        }
        cells[i] = (int16_t)cell;
        int32_t product = gates[OUTPUT_GATE * units + i] * dtn_tfl_tanh_s16(cell, p->cell_bits);
        hidden[i] =
            (int8_t)dtn_tfl_scaled(product, p->out_multiplier, p->out_shift, p->hidden_zp, dtn_tfl_limits(DTN_TYPE_S8));
        output[i] = hidden[i];
    }
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
