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

/* `count` channels of a row of int8. Sums keep their low 32 bits. */
static void run_s8(const params_t *p, const int8_t *input, const int8_t *weights, const int32_t *bias,
                   const int32_t *factors, size_t count, int8_t *output)
{
    uint32_t sums[DTN_CM_ROW_SUMS];
    const uint32_t less = (uint32_t)weight_offset_term(p, input);
    if (bias != NULL && less == 0) {
        memcpy(sums, bias, count * sizeof *sums);
    } else {
        for (size_t j = 0; j < count; j++) {
            sums[j] = (bias == NULL ? 0U : (uint32_t)bias[j]) - less;
        }
    }
    dtn_cm_add_row(input, -p->in_zp, weights, (size_t)p->in_features, count, sums);
    const dtn_cm_rounding_t rounding = {
        .factors = factors,
        .step = p->per_channel == 1 ? DTN_CM_FACTOR_WORDS : 0,
        .offset = p->out_zp,
        .lo = p->act_min,
        .hi = p->act_max,
    };
    dtn_cm_round_sums(&rounding, (const int32_t *)sums, count, output);
}

/* Up to DTN_CM_ROWS channels of a row of int16. */
static void run_s16(const params_t *p, const int16_t *input, const int8_t *weights, const dtn_tensor_t *bias,
                    size_t first, const int32_t *factors, size_t count, int16_t *output)
{
    const int8_t *rows[DTN_CM_ROWS];
    int64_t sums[DTN_CM_ROWS] = {0};
    dtn_cm_rows_of(weights, (size_t)p->in_features, 0, count, rows);
    dtn_cm_add_dots_s16(input, rows, (size_t)p->in_features, sums);
    int64_t total = 0;
    for (int32_t i = 0; p->weight_zp != 0 && i < p->in_features; i++) {
        total += input[i];
    }
    for (size_t j = 0; j < count; j++) {
        int64_t start = bias == NULL                 ? 0
                        : bias->type == DTN_TYPE_S64 ? ((const int64_t *)bias->data)[first + j]
                                                     : ((const int32_t *)bias->data)[first + j];
        int64_t sum = dtn_tfl_wide_plus(start, sums[j] - p->weight_zp * total);
        const int32_t *factor = factors + (p->per_channel == 1 ? j * DTN_CM_FACTOR_WORDS : 0);
        int32_t value = dtn_cm_plus(dtn_cm_times_float64(sum, factor), p->out_zp);
        output[j] = (int16_t)dtn_cm_clamp(value, p->act_min, p->act_max);
    }
}

static void run_row(const dtn_operator_call_t *call, size_t row)
{
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *values = call->values, *out = &values[BIAS + p->has_bias];
    const dtn_tensor_t *bias = p->has_bias == 1 ? &values[BIAS] : NULL;
    const size_t depth = (size_t)p->in_features, channels = (size_t)p->out_features;
    const bool is_s16 = values[INPUT].type == DTN_TYPE_S16;
    const size_t most = is_s16 ? DTN_CM_ROWS : DTN_CM_ROW_SUMS;
    for (size_t first = 0; first < channels; first += most) {
        const int8_t *weights = (const int8_t *)values[WEIGHTS].data + first * depth;
        const int32_t *factors =
            (const int32_t *)values[FACTORS].data + (p->per_channel == 1 ? first * DTN_CM_FACTOR_WORDS : 0);
        const size_t count = channels - first < most ? channels - first : most;
        const size_t at = row * channels + first;
        if (is_s16) {
            run_s16(p, (const int16_t *)values[INPUT].data + row * depth, weights, bias, first, factors, count,
                    (int16_t *)out->data + at);
        } else {
            run_s8(p, (const int8_t *)values[INPUT].data + row * depth, weights,
                   bias == NULL ? NULL : (const int32_t *)bias->data + first, factors, count, (int8_t *)out->data + at);
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
    for (size_t row = 0; row < (size_t)p->rows; row++) {
        run_row(call, row);
    }
    return DTN_OK;
}
