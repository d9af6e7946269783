#include "../cortex_m/dot.h"
#include "numbers.h"

typedef dtn_tfl_fully_connected_params_t params_t;

enum { INPUT, WEIGHTS, FACTORS, BIAS };

/* Words of a factor. */
enum { HIGH, LOW, SHIFT, WORDS };

/* Products of int16 and int8 that a sum of 32 bits holds. */
enum { CHUNK = 128 };

static bool is_flag(int32_t word)
{
    return word == 0 || word == 1;
}

static bool are_numbers(const params_t *p, uint32_t type)
{
    return p->in_features >= 1 && p->in_features <= (type == DTN_TYPE_S8 ? DTN_CM_MAX_PRODUCTS : INT32_MAX) &&
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

static int64_t wide_dot(const int16_t *input, const int8_t *weights, int32_t count, int32_t in_zp, int32_t weight_zp)
{
    int64_t sum = 0;
    for (int32_t at = 0; at < count;) {
        int32_t part = 0;
        for (int32_t end = count - at < CHUNK ? count : at + CHUNK; at < end; at++) {
            part += (input[at] - in_zp) * (weights[at] - weight_zp);
        }
        sum += part;
    }
    return sum;
}

static int64_t bias_at(const dtn_tensor_t *bias, int32_t channel)
{
    return bias->type == DTN_TYPE_S64 ? ((const int64_t *)bias->data)[channel] : ((const int32_t *)bias->data)[channel];
}

/* A sum without its bias. */
static int64_t dot(const params_t *p, const dtn_tensor_t *in, int32_t row, const int8_t *weights)
{
    size_t first = (size_t)row * (size_t)p->in_features;
    if (in->type == DTN_TYPE_S16) {
        return wide_dot((const int16_t *)in->data + first, weights, p->in_features, p->in_zp, p->weight_zp);
    }
    const int8_t *input = (const int8_t *)in->data + first;
    int32_t sum = 0;
    for (int32_t i = 0; i < p->in_features; i++) {
        sum += (input[i] - p->in_zp) * (weights[i] - p->weight_zp);
    }
    return sum;
}

int32_t dtn_tfl_fully_connected(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *values = call->values, *out = &values[BIAS + p->has_bias];
    const int32_t *factors = (const int32_t *)values[FACTORS].data;
    if (!are_factors(factors, p->per_channel == 1 ? p->out_features : 1)) {
        return DTN_REASON_OPERATOR;
    }
    size_t at = 0;
    for (int32_t row = 0; row < p->rows; row++) {
        const int8_t *weights = (const int8_t *)values[WEIGHTS].data;
        const int32_t *factor = factors;
        for (int32_t c = 0; c < p->out_features; c++, weights += p->in_features) {
            int64_t sum = dot(p, &values[INPUT], row, weights);
            sum += p->has_bias == 1 ? bias_at(&values[BIAS], c) : 0;
            int32_t value = dtn_cm_plus(scaled(sum, factor), p->out_zp);
            dtn_tfl_put(out, at++, dtn_cm_clamp(value, p->act_min, p->act_max));
            factor += p->per_channel == 1 ? WORDS : 0;
        }
    }
    return DTN_OK;
}
