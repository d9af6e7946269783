#include <string.h>

#include "../cortex_m/inner.h"
#include "fixed_point_s16.h"
#include "numbers.h"

typedef dtn_tfl_lstm_params_t params_t;

enum { INPUT, INPUT_WEIGHTS, HIDDEN_WEIGHTS, BIAS, GATES, HIDDEN, CELL_STATE, OUTPUT };

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
           p->units <= DTN_CM_MAX_PRODUCTS && (p->time_major == 0 || p->time_major == 1) && dtn_cm_is_s8(p->in_zp) &&
           dtn_cm_is_s8(p->hidden_zp) && dtn_tfl_is_factor(p->out_multiplier, p->out_shift) && p->cell_bits >= 0 &&
           p->cell_bits <= DTN_TFL_MOST_WHOLE_BITS && p->cell_clip >= 0 && p->cell_clip <= INT16_MAX;
}

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, GATES, OUTPUT + 1 - GATES, params_t)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *values = call->values;
    return are_numbers(p) && values[INPUT].type == DTN_TYPE_S8 && dtn_cm_are(&values[INPUT_WEIGHTS], 2, DTN_TYPE_S8) &&
           values[BIAS].type == DTN_TYPE_S32 && values[GATES].type == DTN_TYPE_S16 &&
           values[HIDDEN].type == DTN_TYPE_S8 && values[CELL_STATE].type == DTN_TYPE_S16 &&
           values[OUTPUT].type == DTN_TYPE_S8 &&
           dtn_cm_has_size(&values[INPUT], DTN_CM_LIST(p->batches, p->steps, p->in_features)) &&
           dtn_cm_has_size(&values[INPUT_WEIGHTS], DTN_CM_LIST(GATE_COUNT, p->units, p->in_features)) &&
           dtn_cm_has_size(&values[HIDDEN_WEIGHTS], DTN_CM_LIST(GATE_COUNT, p->units, p->units)) &&
           dtn_cm_has_size(&values[BIAS], DTN_CM_LIST(4, GATE_COUNT, p->units)) &&
           dtn_cm_has_size(&values[GATES], DTN_CM_LIST(2, GATE_COUNT, p->units)) &&
           dtn_cm_has_size(&values[HIDDEN], DTN_CM_LIST(p->batches, p->units)) &&
           dtn_cm_has_size(&values[CELL_STATE], DTN_CM_LIST(2, p->batches, p->units)) &&
           dtn_cm_has_size(&values[OUTPUT], DTN_CM_LIST(p->batches, p->steps, p->units));
}

/* The numbers of a gate before its activation, with three whole bits: `count` rows of weights from `first` on. */
static void add_products(const dtn_operator_call_t *call, size_t gate, size_t first, size_t count, const int8_t *input,
                         const int8_t *hidden, int16_t *numbers)
{
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *values = call->values;
    const size_t features = (size_t)p->in_features, units = (size_t)p->units;
    uint32_t of_input[DTN_CM_ROW_SUMS] = {0}, of_hidden[DTN_CM_ROW_SUMS] = {0};
    memcpy(of_input, (const int32_t *)values[BIAS].data + first, count * sizeof *of_input);
    dtn_cm_add_row(input, -p->in_zp, (const int8_t *)values[INPUT_WEIGHTS].data + first * features, features, count,
                   of_input);
    dtn_cm_add_row(hidden, -p->hidden_zp, (const int8_t *)values[HIDDEN_WEIGHTS].data + first * units, units, count,
                   of_hidden);
    for (size_t j = 0; j < count; j++) {
        int32_t a = dtn_cm_requantize((int32_t)of_input[j], p->input_multipliers[gate], p->input_shifts[gate]);
        int32_t b = dtn_cm_requantize((int32_t)of_hidden[j], p->hidden_multipliers[gate], p->hidden_shifts[gate]);
        numbers[j] = (int16_t)dtn_tfl_saturated_s16(dtn_cm_plus(dtn_tfl_saturated_s16(a), b));
    }
}

/* All gates of one step. */
static void run_gates(const dtn_operator_call_t *call, const int8_t *input, const int8_t *hidden)
{
    const size_t units = (size_t)DTN_CM_PARAMS(call, params_t)->units;
    int16_t *gates = (int16_t *)call->values[GATES].data;
    for (size_t gate = 0; gate < GATE_COUNT; gate++, gates += units) {
        for (size_t unit = 0; unit < units; unit += DTN_CM_ROW_SUMS) {
            size_t count = units - unit < DTN_CM_ROW_SUMS ? units - unit : DTN_CM_ROW_SUMS;
            add_products(call, gate, gate * units + unit, count, input, hidden, gates + unit);
        }
        for (size_t unit = 0; unit < units; unit++) {
            gates[unit] =
                (int16_t)(gate == CELL_GATE ? dtn_tfl_tanh_s16(gates[unit], 3) : dtn_tfl_logistic_s16(gates[unit]));
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
