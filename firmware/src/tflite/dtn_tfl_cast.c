#include <string.h>

#include "integer_common.h"

typedef dtn_tfl_cast_params_t params_t;

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 1, 1, params_t)) {
        return false;
    }
    int32_t elements = DTN_CM_PARAMS(call, params_t)->elements;
    const dtn_tensor_t *values = call->values;
    return dtn_cm_has_size(&values[0], DTN_CM_LIST((int32_t)dtn_tfl_number_bytes(values[0].type), elements)) &&
           dtn_cm_has_size(&values[1], DTN_CM_LIST((int32_t)dtn_tfl_number_bytes(values[1].type), elements));
}

/* A number without what stands behind its point, within the limits of a type; its largest for NaN. */
static int64_t truncated(float x, uint32_t type)
{
    const float beyond = 9223372036854775808.0F; /* 2^63 */
    dtn_tfl_limits_t narrow = dtn_tfl_limits(type);
    int64_t low = type == DTN_TYPE_S64 ? INT64_MIN : narrow.min, high = type == DTN_TYPE_S64 ? INT64_MAX : narrow.max;
    if (type == DTN_TYPE_U32) {
        low = 0;
        high = UINT32_MAX;
    }
    if (!(x > -beyond && x < beyond)) {
        return x < 0.0F ? low : high;
    }
    int64_t whole = (int64_t)x;
    return whole < low ? low : whole > high ? high : whole;
}

static int64_t load(const dtn_tensor_t *value, size_t at, uint32_t target)
{
    return value->type == DTN_TYPE_F32 ? truncated(((const float *)value->data)[at], target)
                                       : dtn_tfl_whole_at(value, at);
}

static void store(const dtn_tensor_t *value, size_t at, int64_t number)
{
    switch (value->type) {
    case DTN_TYPE_F32:
        ((float *)value->data)[at] = (float)number;
        break;
    case DTN_TYPE_S64:
        ((int64_t *)value->data)[at] = number;
        break;
    case DTN_TYPE_S32:
    case DTN_TYPE_U32:
        ((int32_t *)value->data)[at] = (int32_t)(uint32_t)(uint64_t)number;
        break;
    case DTN_TYPE_BOOL:
        ((uint8_t *)value->data)[at] = number != 0;
        break;
    default:
        dtn_tfl_put(value, at, (int32_t)(uint32_t)(uint64_t)number);
    }
}

/* True for whole numbers of 32 bits, which a cast to another keeps. */
static bool is_word(const dtn_tensor_t *value)
{
    return value->type == DTN_TYPE_S32 || value->type == DTN_TYPE_U32;
}

int32_t dtn_tfl_cast(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const dtn_tensor_t *in = &call->values[0], *out = &call->values[1];
    if (in->type == out->type || (is_word(in) && is_word(out))) {
        memcpy(out->data, in->data, out->bytes);
        return DTN_OK;
    }
    for (size_t i = 0; i < (size_t)DTN_CM_PARAMS(call, params_t)->elements; i++) {
        if (in->type == DTN_TYPE_F32 && out->type == DTN_TYPE_BOOL) {
            ((uint8_t *)out->data)[i] = ((const float *)in->data)[i] != 0.0F;
        } else {
            store(out, i, load(in, i, out->type));
        }
    }
    return DTN_OK;
}
