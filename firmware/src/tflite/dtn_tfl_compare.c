#include "integer_common.h"

typedef dtn_tfl_compare_params_t params_t;

enum { LESS = 0, LESS_OR_EQUAL = 1, EQUAL = 2, DIFFERENT = 3 };

enum { LEFT_SHIFT = 8 };

static bool is_valid(const dtn_operator_call_t *call)
{
    uint32_t type = call->values[0].type, item = dtn_tfl_number_bytes(type);
    if (!DTN_CM_IS_CALL(call, 2, 1, params_t) || item == 0 || !dtn_cm_are(call->values, 2, type) ||
        call->values[2].type != DTN_TYPE_BOOL) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    bool is_scaled = p->scaled == 1 && dtn_tfl_is_activation(type) && dtn_tfl_holds(type, p->a_zp) &&
                     dtn_tfl_holds(type, p->b_zp) && dtn_tfl_is_factor(p->a_multiplier, p->a_shift) &&
                     dtn_tfl_is_factor(p->b_multiplier, p->b_shift);
    return (p->scaled == 0 || is_scaled) && p->kind >= LESS && p->kind <= DIFFERENT &&
           dtn_index_is_inside(p->dims, p->a_strides, call->values[2].bytes, call->values[0].bytes / item) &&
           dtn_index_is_inside(p->dims, p->b_strides, call->values[2].bytes, call->values[1].bytes / item);
}

static int64_t scaled(int64_t x, int32_t zero_point, int32_t multiplier, int32_t shift)
{
    return dtn_cm_requantize(((int32_t)x - zero_point) * (1 << LEFT_SHIFT), multiplier, shift);
}

static bool holds(int32_t kind, bool less, bool equal)
{
    switch (kind) {
    case LESS:
        return less;
    case LESS_OR_EQUAL:
        return less || equal;
    case EQUAL:
        return equal;
    default:
        return !equal;
    }
}

static bool result(const params_t *p, const dtn_tensor_t *values, size_t a, size_t b)
{
    if (values[0].type == DTN_TYPE_F32) {
        float x = ((const float *)values[0].data)[a], y = ((const float *)values[1].data)[b];
        return holds(p->kind, x < y, x == y);
    }
    int64_t x = dtn_tfl_whole_at(&values[0], a), y = dtn_tfl_whole_at(&values[1], b);
    if (p->scaled == 1) {
        x = scaled(x, p->a_zp, p->a_multiplier, p->a_shift);
        y = scaled(y, p->b_zp, p->b_multiplier, p->b_shift);
    }
    return holds(p->kind, x < y, x == y);
}

int32_t dtn_tfl_compare(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    uint8_t *out = (uint8_t *)call->values[2].data;
    dtn_tfl_pairs_t pairs = dtn_tfl_pairs(call->values, p->dims, p->a_strides, p->b_strides);
    for (; pairs.left != 0; dtn_tfl_pairs_next(&pairs)) {
        for (uint32_t i = 0; i < pairs.length; i++) {
            *out++ = result(p, call->values, pairs.a + i * pairs.a_step, pairs.b + i * pairs.b_step);
        }
    }
    return DTN_OK;
}
