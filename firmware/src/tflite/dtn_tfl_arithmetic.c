#include "float32_common.h"

typedef dtn_tfl_arithmetic_params_t params_t;

enum { ADD, SUB, MUL, DIV, FLOOR_DIV, FLOOR_MOD, SQUARED_DIFFERENCE, PRELU, KINDS };

static bool is_valid(const dtn_operator_call_t *call)
{
    const dtn_tensor_t *values = call->values;
    uint32_t type = values[0].type, item = dtn_tfl_number_bytes(type);
    bool is_computed = item != 0 && type >= DTN_TYPE_S8 && type <= DTN_TYPE_F32;
    if (!DTN_CM_IS_CALL(call, 2, 1, params_t) || !is_computed || !dtn_cm_are(values, 3, type)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    bool is_real = type == DTN_TYPE_F32;
    bool is_range = is_real ? dtn_tfl_real(p->act_min) <= dtn_tfl_real(p->act_max) : p->act_min <= p->act_max;
    return p->kind >= ADD && p->kind < KINDS && (is_real || p->kind != PRELU) && is_range &&
           dtn_index_is_inside(p->dims, p->a_strides, values[2].bytes / item, values[0].bytes / item) &&
           dtn_index_is_inside(p->dims, p->b_strides, values[2].bytes / item, values[1].bytes / item);
}

/* a - b * floor(a / b), exactly: the divisor is doubled until it exceeds the dividend, and taken off as it is halved.
 */
static float real_floor_mod(float a, float b)
{
    const double most = (double)FLT_MAX;
    double rest = a < 0.0F ? -(double)a : (double)a, divisor = b < 0.0F ? -(double)b : (double)b;
    if (!(rest <= most) || !(divisor > 0.0)) {
        return (a - a) / (b - b); /* not a number */
    }
    double step = divisor;
    while (step <= most && step <= rest) {
        step *= 2.0;
    }
    for (; rest >= divisor; step *= 0.5) {
        rest -= step <= rest ? step : 0.0;
    }
    float found = a < 0.0F ? -(float)rest : (float)rest;
    return rest != 0.0 && (a < 0.0F) != (b < 0.0F) ? found + b : found;
}

static float real_result(int32_t kind, float a, float b)
{
    float difference = a - b;
    switch (kind) {
    case ADD:
        return a + b;
    case SUB:
        return difference;
    case MUL:
        return a * b;
    case DIV:
        return a / b;
    case FLOOR_DIV:
        return dtn_tfl_floor(a / b);
    case FLOOR_MOD:
        return real_floor_mod(a, b);
    case SQUARED_DIFFERENCE:
        return difference * difference;
    default:
        return a >= 0.0F ? a : a * b;
    }
}

/* The quotient that is not above a / b; 0 for a divisor of 0. The negative of the least number is itself. */
static int64_t floor_of(int64_t a, int64_t b)
{
    if (b == 0 || b == -1) {
        return b == 0 ? 0 : (int64_t)(0U - (uint64_t)a);
    }
    return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

/* In 64 bits that wrap round. */
static int64_t whole_result(int32_t kind, int64_t a, int64_t b)
{
    uint64_t x = (uint64_t)a, y = (uint64_t)b, difference = x - y;
    switch (kind) {
    case ADD:
        return (int64_t)(x + y);
    case SUB:
        return (int64_t)difference;
    case MUL:
        return (int64_t)(x * y);
    case DIV: {
        int64_t floor = floor_of(a, b);
        return b != 0 && b != -1 && a % b != 0 && floor < 0 ? floor + 1 : floor;
    }
    case FLOOR_DIV:
        return floor_of(a, b);
    case FLOOR_MOD:
        return b == 0 ? 0 : (int64_t)(x - y * (uint64_t)floor_of(a, b));
    default:
        return (int64_t)(difference * difference);
    }
}

static int64_t load(const dtn_tensor_t *value, size_t at)
{
    switch (value->type) {
    case DTN_TYPE_S64:
        return ((const int64_t *)value->data)[at];
    case DTN_TYPE_S32:
        return ((const int32_t *)value->data)[at];
    default:
        return dtn_tfl_at(value, at);
    }
}

static void store(const params_t *p, const dtn_tensor_t *value, size_t at, int64_t number)
{
    if (value->type == DTN_TYPE_S64) {
        int64_t low = p->act_min == INT32_MIN ? INT64_MIN : p->act_min;
        int64_t high = p->act_max == INT32_MAX ? INT64_MAX : p->act_max;
        ((int64_t *)value->data)[at] = number < low ? low : number > high ? high : number;
        return;
    }
    int32_t low_bits = dtn_cm_clamp((int32_t)(uint32_t)(uint64_t)number, p->act_min, p->act_max);
    if (value->type == DTN_TYPE_S32) {
        ((int32_t *)value->data)[at] = low_bits;
    } else {
        dtn_tfl_put(value, at, low_bits);
    }
}

int32_t dtn_tfl_arithmetic(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *a = &call->values[0], *b = &call->values[1], *out = &call->values[2];
    bool is_real = out->type == DTN_TYPE_F32;
    float low = dtn_tfl_real(p->act_min), high = dtn_tfl_real(p->act_max);
    int32_t index[DTN_INDEX_RANK] = {0};
    size_t count = out->bytes / dtn_tfl_number_bytes(out->type);
    for (size_t i = 0; i < count; i++) {
        size_t at_a = dtn_index_offset(index, p->a_strides), at_b = dtn_index_offset(index, p->b_strides);
        if (is_real) {
            float y = real_result(p->kind, ((const float *)a->data)[at_a], ((const float *)b->data)[at_b]);
            ((float *)out->data)[i] = dtn_tfl_clamp_f32(y, low, high);
        } else {
            store(p, out, i, whole_result(p->kind, load(a, at_a), load(b, at_b)));
        }
        dtn_index_next(index, p->dims);
    }
    return DTN_OK;
}
