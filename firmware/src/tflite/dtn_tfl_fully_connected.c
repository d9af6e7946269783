#include "../cortex_m/dot_product_s8.h"
#include "numbers.h"

typedef dtn_tfl_fully_connected_params_t params_t;

enum { INPUT, WEIGHTS, FACTORS, BIAS };

/* Words of a factor. */
enum { HIGH, LOW, SHIFT, WORDS };

/* Products of int8 weights and inputs less their zero point that a sum of 32 bits holds: 65536 * 255 * 128 < 2^31. */
enum { MOST_PRODUCTS = 65536 };

/* Products of int16 and int8 that a sum of 32 bits holds. */
enum { CHUNK = 128 };

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
    bool is_bias = bias->type == DTN_TYPE_S32 || bias->type == DTN_TYPE_S64;
    return call->input_count == (uint32_t)(BIAS + p->has_bias) && call->output_count == 1 &&
           values[WEIGHTS].type == DTN_TYPE_S8 && values[FACTORS].type == DTN_TYPE_S32 && out->type == type &&
           dtn_cm_has_size(&values[INPUT], DTN_CM_LIST(item, p->rows, p->in_features)) &&
           dtn_cm_has_size(&values[WEIGHTS], DTN_CM_LIST(p->out_features, p->in_features)) &&
           dtn_cm_has_size(&values[FACTORS], DTN_CM_LIST(4, WORDS, p->per_channel == 1 ? p->out_features : 1)) &&
           (p->has_bias == 0 ||
            (is_bias && dtn_cm_has_size(bias, DTN_CM_LIST(bias->type == DTN_TYPE_S64 ? 8 : 4, p->out_features)))) &&
           dtn_cm_has_size(out, DTN_CM_LIST(item, p->rows, p->out_features));
}

/* True for factors that can be computed with: they are constants, which no check has read. */
static bool are_factors(const int32_t *factors, int32_t count)
{
    for (; count > 0; count--, factors += WORDS) {
        if (factors[HIGH] < 0 || factors[HIGH] >= 1 << 21 || factors[SHIFT] < 1 || factors[SHIFT] > 127) {
            return false;
        }
    }
    return true;
}

/* sum * factor, rounded to nearest, ties away from zero, within 32 bits: of a product of 128 bits without its sign. */
static int32_t scaled(int64_t sum, const int32_t *factor)
{
    uint64_t a = sum < 0 ? 0U - (uint64_t)sum : (uint64_t)sum;
    uint64_t low = (uint64_t)(uint32_t)a * (uint32_t)factor[LOW];
    uint64_t middle = (low >> 32) + (a >> 32) * (uint32_t)factor[LOW];
    uint64_t other = (uint64_t)(uint32_t)a * (uint32_t)factor[HIGH] + (uint32_t)middle;
    uint64_t high = (a >> 32) * (uint32_t)factor[HIGH] + (middle >> 32) + (other >> 32);
    low = other << 32 | (uint32_t)low;
    /* With one bit behind the point. */
    int32_t shift = factor[SHIFT] - 1;
    uint64_t twice = shift >= 64 ? high >> (shift - 64) : shift == 0 ? low : low >> shift | high << (64 - shift);
    bool is_large = shift < 64 && high >> shift != 0;
    uint64_t nearest = is_large || twice >= UINT32_MAX ? INT32_MAX : (twice + 1) >> 1;
    return sum < 0 ? -(int32_t)nearest : (int32_t)nearest;
}

static int64_t bias_at(const dtn_tensor_t *bias, size_t channel)
{
    return bias->type == DTN_TYPE_S64 ? ((const int64_t *)bias->data)[channel] : ((const int32_t *)bias->data)[channel];
}

/* The products of a row of int16, a chunk at a time. */
static void wide_dots(const params_t *p, const int16_t *input, const int8_t *const rows[DTN_CM_ROWS],
                      int64_t sums[DTN_CM_ROWS])
{
    for (size_t j = 0; j < DTN_CM_ROWS; j++) {
        sums[j] = 0;
        for (int32_t at = 0; at < p->in_features;) {
            int32_t part = 0;
            for (int32_t end = p->in_features - at < CHUNK ? p->in_features : at + CHUNK; at < end; at++) {
                part += input[at] * (rows[j][at] - p->weight_zp);
            }
            sums[j] += part;
        }
    }
}

/* The products of a row of int8; what the zero point of weights takes from all of them is `less`. */
static void dots(const params_t *p, const int8_t *input, const int8_t *const rows[DTN_CM_ROWS], int32_t less,
                 int64_t sums[DTN_CM_ROWS])
{
    uint32_t found[DTN_CM_ROWS] = {0};
    dtn_cm_add_dots(input, -p->in_zp, rows, 0, (size_t)p->in_features, found);
    for (size_t j = 0; j < DTN_CM_ROWS; j++) {
        sums[j] = (int64_t)(int32_t)found[j] - less;
    }
}

/* The zero point of weights times the sum of the inputs. */
static int32_t share_of_zero_point(const params_t *p, const int8_t *input)
{
    int32_t sum = 0;
    for (int32_t i = 0; p->weight_zp != 0 && i < p->in_features; i++) {
        sum += input[i] - p->in_zp;
    }
    return sum * p->weight_zp;
}

static void run_row(const dtn_operator_call_t *call, size_t row)
{
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *values = call->values, *out = &values[BIAS + p->has_bias];
    const int32_t *factors = (const int32_t *)values[FACTORS].data;
    size_t depth = (size_t)p->in_features, channels = (size_t)p->out_features;
    bool is_wide = values[INPUT].type == DTN_TYPE_S16;
    const int8_t *input = (const int8_t *)values[INPUT].data + row * depth * (is_wide ? 2 : 1);
    int32_t less = is_wide ? 0 : share_of_zero_point(p, input);
    for (size_t first = 0; first < channels; first += DTN_CM_ROWS) {
        const int8_t *rows[DTN_CM_ROWS];
        int64_t sums[DTN_CM_ROWS];
        dtn_cm_rows_of((const int8_t *)values[WEIGHTS].data, depth, first, channels, rows);
        if (is_wide) {
            wide_dots(p, (const int16_t *)(const void *)input, rows, sums);
        } else {
            dots(p, input, rows, less, sums);
        }
        for (size_t c = first; c < channels && c < first + DTN_CM_ROWS; c++) {
            int64_t bias = p->has_bias == 1 ? bias_at(&values[BIAS], c) : 0;
            int64_t sum = dtn_tfl_wide_plus(sums[c - first], bias);
            int32_t value = dtn_cm_plus(scaled(sum, factors + (p->per_channel == 1 ? c * WORDS : 0)), p->out_zp);
            dtn_tfl_put(out, row * channels + c, dtn_cm_clamp(value, p->act_min, p->act_max));
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
    if (!are_factors(factors, p->per_channel == 1 ? p->out_features : 1)) {
        return DTN_REASON_OPERATOR;
    }
    for (size_t row = 0; row < (size_t)p->rows; row++) {
        run_row(call, row);
    }
    return DTN_OK;
}
