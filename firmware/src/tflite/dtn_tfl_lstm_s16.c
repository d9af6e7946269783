#include "../cortex_m/dot_product_s8.h"
#include "../cortex_m/int16.h"
#include "../cortex_m/recurrent_s8.h"
#include "integer_common.h"
#include "sigmoid_s16.h"

typedef dtn_tfl_lstm_s16_params_t params_t;

enum { INPUT, WEIGHTS, BIASES, TABLE, GATES, HIDDEN, CELL_STATE, OUTPUT };

/* A multiplier whose product with an int16 in steps of 2^-12 has steps of 1/12288; 2^30 is a half. */
enum { GATE_MULTIPLIER = 3, HALF = 1 << 30, WHOLE_BITS = 3 };

/* Factors whose shifts `dtn_tfl_wide_scaled` takes. */
static bool are_factors(const int32_t *multipliers, const int32_t *shifts)
{
    bool are = true;
    for (size_t gate = 0; gate < DTN_CM_MOST_GATES; gate++) {
        are = are && dtn_tfl_is_factor(multipliers[gate], shifts[gate]) && shifts[gate] <= 14;
    }
    return are;
}

static dtn_cm_sequence_t sequence_of(const params_t *p)
{
    const dtn_cm_sequence_t sequence = {p->batches, p->steps, p->time_major, p->reverse};
    return sequence;
}

static bool are_numbers(const params_t *p)
{
    const dtn_cm_sequence_t sequence = sequence_of(p);
    return are_factors(p->input_multipliers, p->input_shifts) && are_factors(p->hidden_multipliers, p->hidden_shifts) &&
           dtn_tfl_is_factor(p->out_multiplier, p->out_shift) && p->hidden_zp == 0 && p->cell_bits >= 0 &&
           p->cell_bits <= DTN_CM_MOST_CELL_BITS && p->cell_clip >= 0 && p->cell_clip <= INT16_MAX &&
           p->in_features >= 1 && p->in_features <= DTN_CM_MAX_PRODUCTS && p->units <= DTN_CM_MAX_PRODUCTS &&
           dtn_cm_is_sequence(&sequence);
}

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, GATES, OUTPUT + 1 - GATES, params_t)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *values = call->values;
    return are_numbers(p) && values[INPUT].type == DTN_TYPE_S16 && values[WEIGHTS].type == DTN_TYPE_S8 &&
           values[BIASES].type == DTN_TYPE_S64 && values[TABLE].type == DTN_TYPE_S32 &&
           dtn_cm_are(&values[GATES], OUTPUT + 1 - GATES, DTN_TYPE_S16) &&
           dtn_cm_has_size(&values[INPUT], DTN_CM_LIST(2, p->batches, p->steps, p->in_features)) &&
           dtn_cm_has_size(&values[WEIGHTS], DTN_CM_LIST(DTN_CM_MOST_GATES, p->units, p->in_features + p->units)) &&
           dtn_cm_has_size(&values[BIASES], DTN_CM_LIST(8, DTN_CM_MOST_GATES, p->units)) &&
           dtn_cm_has_size(&values[TABLE], DTN_CM_LIST(4, DTN_TFL_SIGMOID_VALUES)) &&
           dtn_cm_has_size(&values[GATES], DTN_CM_LIST(2, DTN_CM_MOST_GATES, p->units)) &&
           dtn_cm_has_size(&values[HIDDEN], DTN_CM_LIST(2, p->batches, p->units)) &&
           dtn_cm_has_size(&values[CELL_STATE], DTN_CM_LIST(2, p->batches, p->units)) &&
           dtn_cm_has_size(&values[OUTPUT], DTN_CM_LIST(2, p->batches, p->steps, p->units));
}

/* Adds scaled sums of products with rows of weights to numbers; both are saturated. */
static void add_scaled(const int16_t *values, size_t depth, const int8_t *weights, const int64_t *biases,
                       dtn_cm_lstm_factor_t factor, int16_t *numbers, size_t units)
{
    for (size_t first = 0; first < units; first += DTN_CM_ROWS) {
        const int8_t *rows[DTN_CM_ROWS];
        int64_t sums[DTN_CM_ROWS] = {0};
        dtn_cm_rows_of(weights, depth, first, units, rows);
        dtn_cm_add_dots_s16(values, rows, depth, sums);
        for (size_t j = 0; j < DTN_CM_ROWS && first + j < units; j++) {
            int64_t sum = biases == NULL ? sums[j] : dtn_tfl_wide_plus(sums[j], biases[first + j]);
            int64_t scaled = dtn_tfl_wide_scaled(sum, factor.multiplier, factor.shift);
            int32_t number = (int32_t)(scaled < INT16_MIN ? INT16_MIN : scaled > INT16_MAX ? INT16_MAX : scaled);
            numbers[first + j] = (int16_t)dtn_cm_saturated_s16(numbers[first + j] + number);
        }
    }
}

static void run_gate(const dtn_operator_call_t *call, size_t gate, const int16_t *input, const int16_t *hidden,
                     int16_t *numbers)
{
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const size_t units = (size_t)p->units, depth = (size_t)p->in_features, first = gate * units;
    const dtn_cm_lstm_factor_t of_input = {p->input_multipliers[gate], p->input_shifts[gate]};
    const dtn_cm_lstm_factor_t of_hidden = {p->hidden_multipliers[gate], p->hidden_shifts[gate]};
    const int32_t *table = (const int32_t *)call->values[TABLE].data;
    for (size_t i = 0; i < units; i++) {
        numbers[i] = 0;
    }
    const int8_t *weights = (const int8_t *)call->values[WEIGHTS].data;
    const int8_t *hidden_weights = weights + DTN_CM_MOST_GATES * units * depth;
    add_scaled(input, depth, weights + first * depth, (const int64_t *)call->values[BIASES].data + first, of_input,
               numbers, units);
    add_scaled(hidden, units, hidden_weights + first * units, NULL, of_hidden, numbers, units);
    for (size_t i = 0; i < units; i++) {
        int32_t x = numbers[i] * GATE_MULTIPLIER;
        numbers[i] = gate == DTN_CM_CELL_GATE ? dtn_tfl_tanh_s16(table, x) : dtn_tfl_logistic_s16(table, x);
    }
}

/* The product of two numbers divided by a power of two of 1 or more, rounded twice, and saturated. */
static int32_t divided(int32_t product, int32_t power)
{
    return dtn_cm_saturated_s16(dtn_cm_requantize(product, HALF, 1 - power));
}

static void run_step(const dtn_operator_call_t *call, const int16_t *input, int16_t *hidden, int16_t *cells,
                     int16_t *output)
{
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const size_t units = (size_t)p->units;
    const int32_t *table = (const int32_t *)call->values[TABLE].data;
    const int32_t clip = p->cell_clip > 0 ? p->cell_clip : INT16_MAX, low = p->cell_clip > 0 ? -clip : INT16_MIN;
    int16_t *gates[DTN_CM_MOST_GATES];
    for (size_t gate = 0; gate < DTN_CM_MOST_GATES; gate++) {
        gates[gate] = (int16_t *)call->values[GATES].data + gate * units;
        run_gate(call, gate, input, hidden, gates[gate]);
    }
    const int32_t left = p->cell_bits > WHOLE_BITS ? p->cell_bits - WHOLE_BITS : 0;
    const int32_t right = p->cell_bits < WHOLE_BITS ? WHOLE_BITS - p->cell_bits : 0;
    for (size_t i = 0; i < units; i++) {
        int32_t kept = divided(gates[DTN_CM_FORGET_GATE][i] * cells[i], 15);
        int32_t added = divided(gates[DTN_CM_INPUT_GATE][i] * gates[DTN_CM_CELL_GATE][i], 15 + p->cell_bits);
        cells[i] = (int16_t)dtn_cm_clamp(dtn_cm_saturated_s16(kept + added), low, clip);
        int32_t tanh = dtn_tfl_tanh_s16(table, dtn_tfl_sigmoid_input(cells[i], GATE_MULTIPLIER << left, right));
        int32_t number = dtn_cm_requantize(tanh * gates[DTN_CM_OUTPUT_GATE][i], p->out_multiplier, p->out_shift);
        hidden[i] = (int16_t)dtn_cm_saturated_s16(number);
        output[i] = hidden[i];
    }
}

int32_t dtn_tfl_lstm_s16(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_cm_sequence_t sequence = sequence_of(p);
    const size_t units = (size_t)p->units, in_features = (size_t)p->in_features;
    for (int32_t batch = 0; batch < p->batches; batch++) {
        int16_t *hidden = (int16_t *)call->values[HIDDEN].data + (size_t)batch * units;
        int16_t *cells = (int16_t *)call->values[CELL_STATE].data + (size_t)batch * units;
        for (int32_t step = 0; step < p->steps; step++) {
            size_t row = dtn_cm_sequence_row(&sequence, batch, step);
            run_step(call, (const int16_t *)call->values[INPUT].data + row * in_features, hidden, cells,
                     (int16_t *)call->values[OUTPUT].data + row * units);
        }
    }
    return DTN_OK;
}
