#include <string.h>

#include "../cortex_m/float64_factor.h"
#include "../cortex_m/inner_loops.h"
#include "../cortex_m/int16.h"
#include "integer_common.h"

typedef dtn_tfl_fully_connected_params_t params_t;

enum { INPUT, WEIGHTS, FACTORS, BIAS };

/* Products of int8 weights and inputs less their zero point that a sum of 32 bits holds: 65536 * 255 * 128 < 2^31. */
enum { MOST_PRODUCTS = 65536 };

static bool is_flag(int32_t word)
{
    return word == 0 || word == 1;
}

static bool are_numbers(const params_t *p, uint32_t type)
{
    return p->in_features >= 1 && p->in_features <= (type == DTN_TYPE_S8 ? MOST_PRODUCTS : INT32_MAX) &&
           dtn_tfl_holds(type, p->in_zp) && (type == DTN_TYPE_S8 || p->in_zp == 0) && dtn_cm_is_s8(p->weight_zp) &&
           dtn_tfl_holds(type, p->out_zp) && dtn_tfl_is_range(type, p->act_min, p->act_max) &&
           is_flag(p->per_channel) && is_flag(p->has_bias);
}

static bool is_valid(const dtn_operator_call_t *call)
{
    uint32_t type = call->values[INPUT].type;
    if (call->param_count != sizeof(params_t) / sizeof(uint32_t) || !dtn_tfl_is_activation(type)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    if (!are_numbers(p, type)) {
        return false;
    }
    const dtn_tensor_t *values = call->values, *bias = &values[BIAS], *out = &values[BIAS + p->has_bias];
    int32_t item = (int32_t)dtn_tfl_item(type);
    bool is_bias = bias->type == DTN_TYPE_S32 || (bias->type == DTN_TYPE_S64 && type == DTN_TYPE_S16);
    return call->input_count == (uint32_t)(BIAS + p->has_bias) && call->output_count == 1 &&
           values[WEIGHTS].type == DTN_TYPE_S8 && values[FACTORS].type == DTN_TYPE_S32 && out->type == type &&
           dtn_cm_has_size(&values[INPUT], DTN_CM_LIST(item, p->rows, p->in_features)) &&
           dtn_cm_has_size(&values[WEIGHTS], DTN_CM_LIST(p->out_features, p->in_features)) &&
           dtn_cm_has_size(&values[FACTORS],
                           DTN_CM_LIST(4, DTN_CM_FACTOR_WORDS, p->per_channel == 1 ? p->out_features : 1)) &&
           (p->has_bias == 0 ||
            (is_bias && dtn_cm_has_size(bias, DTN_CM_LIST(bias->type == DTN_TYPE_S64 ? 8 : 4, p->out_features)))) &&
           dtn_cm_has_size(out, DTN_CM_LIST(item, p->rows, p->out_features));
}

/* The sum of the inputs of a row less their zero point, times the zero point of the weights. */
static int32_t weight_offset_term(const params_t *p, const int8_t *input)
{
    int32_t sum = 0;
    for (int32_t i = 0; p->weight_zp != 0 && i < p->in_features; i++) {
        sum += input[i] - p->in_zp;
    }
    return sum * p->weight_zp;
}

/* The factors of the channels from `first` on. */
static const int32_t *factors_of(const dtn_operator_call_t *call, const params_t *p, size_t first)
{
    return (const int32_t *)call->values[FACTORS].data + (p->per_channel == 1 ? first * DTN_CM_FACTOR_WORDS : 0);
}

/* Rows of int8. Sums keep their low 32 bits. */
static void run_s8(const dtn_operator_call_t *call, const params_t *p)
{
    const dtn_tensor_t *values = call->values;
    const size_t depth = (size_t)p->in_features, channels = (size_t)p->out_features;
    const int8_t *input = (const int8_t *)values[INPUT].data;
    int8_t *output = (int8_t *)values[BIAS + p->has_bias].data;
    dtn_cm_rounding_t rounding = {
        .step = p->per_channel == 1 ? DTN_CM_FACTOR_WORDS : 0,
        .offset = p->out_zp,
        .lo = p->act_min,
        .hi = p->act_max,
    };
    for (size_t left = (size_t)p->rows; left != 0; left--, input += depth) {
        const int8_t *weights = (const int8_t *)values[WEIGHTS].data;
        const uint32_t less = (uint32_t)weight_offset_term(p, input);
        for (size_t first = 0, count; first < channels; first += count) {
            count = channels - first < DTN_CM_ROW_SUMS ? channels - first : DTN_CM_ROW_SUMS;
            uint32_t sums[DTN_CM_ROW_SUMS];
            if (p->has_bias == 1) {
                memcpy(sums, (const int32_t *)values[BIAS].data + first, count * sizeof *sums);
            } else {
                memset(sums, 0, count * sizeof *sums);
            }
            for (size_t j = 0; less != 0 && j < count; j++) {
                sums[j] -= less;
            }
            dtn_cm_add_row(input, -p->in_zp, weights, depth, count, sums);
            rounding.factors = factors_of(call, p, first);
            dtn_cm_round_sums(&rounding, (const int32_t *)sums, count, output);
            weights += count * depth;
            output += count;
        }
    }
}

/* The sum of one output of int16 before its products. */
static int64_t start_of(const dtn_tensor_t *bias, size_t channel)
{
    return bias->type == DTN_TYPE_S64 ? ((const int64_t *)bias->data)[channel] : ((const int32_t *)bias->data)[channel];
}

/* Rows of int16. */
static void run_s16(const dtn_operator_call_t *call, const params_t *p)
{
    const dtn_tensor_t *values = call->values;
    const size_t depth = (size_t)p->in_features, channels = (size_t)p->out_features;
    const int16_t *input = (const int16_t *)values[INPUT].data;
    int16_t *output = (int16_t *)values[BIAS + p->has_bias].data;
    for (size_t left = (size_t)p->rows; left != 0; left--, input += depth) {
        int64_t total = 0;
        for (size_t i = 0; p->weight_zp != 0 && i < depth; i++) {
            total += input[i];
        }
        for (size_t first = 0, count; first < channels; first += count) {
            count = channels - first < DTN_CM_ROWS ? channels - first : DTN_CM_ROWS;
            const int8_t *rows[DTN_CM_ROWS];
            int64_t sums[DTN_CM_ROWS] = {0};
            dtn_cm_rows_of((const int8_t *)values[WEIGHTS].data + first * depth, depth, 0, count, rows);
            dtn_cm_add_dots_s16(input, rows, depth, sums);
            for (size_t j = 0; j < count; j++) {
                int64_t start = p->has_bias == 1 ? start_of(&values[BIAS], first + j) : 0;
                int64_t sum = dtn_tfl_wide_plus(start, sums[j] - p->weight_zp * total);
                int32_t value = dtn_cm_times_float64(sum, factors_of(call, p, first + j));
                *output++ = (int16_t)dtn_cm_clamp(dtn_cm_plus(value, p->out_zp), p->act_min, p->act_max);
            }
        }
    }
}

int32_t dtn_tfl_fully_connected(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const int32_t *factors = (const int32_t *)call->values[FACTORS].data;
    if (!dtn_cm_are_float64_factors(factors, p->per_channel == 1 ? p->out_features : 1)) {
        return DTN_REASON_OPERATOR;
    }
    if (call->values[INPUT].type == DTN_TYPE_S16) {
        run_s16(call, p);
    } else {
        run_s8(call, p);
    }
    return DTN_OK;
}
