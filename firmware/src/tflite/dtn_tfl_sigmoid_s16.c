#include "integer_common.h"

typedef dtn_tfl_sigmoid_s16_params_t params_t;

enum { TABLE_VALUES = 256 };

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 2, 1, params_t)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *in = &call->values[0], *table = &call->values[1], *out = &call->values[2];
    return in->type == DTN_TYPE_S16 && table->type == DTN_TYPE_S32 && out->type == DTN_TYPE_S16 &&
           dtn_cm_has_size(in, DTN_CM_LIST(2, p->elements)) && dtn_cm_has_size(out, DTN_CM_LIST(2, p->elements)) &&
           dtn_cm_has_size(table, DTN_CM_LIST(4, TABLE_VALUES)) && p->multiplier >= 0 && p->multiplier <= UINT16_MAX &&
           p->shift >= 0 && p->shift <= 31 && (p->tanh == 0 || p->tanh == 1);
}

/* The value between two of the table, `bits` behind the point; the last one alone beyond them. */
static uint32_t between(const int32_t *table, uint32_t x, uint32_t bits)
{
    uint32_t at = x >> bits;
    uint32_t rest = x & ((UINT32_C(1) << bits) - 1U);
    uint32_t first = (uint32_t)table[at];
    return (first << bits) + rest * ((uint32_t)table[at + 1] - first);
}

static int16_t logistic(const int32_t *table, int32_t x)
{
    const uint32_t one = UINT32_C(1) << 9;
    uint32_t size = (uint32_t)(x < 0 ? -x : x);
    uint32_t value = size >> 9 >= TABLE_VALUES - 1 ? UINT32_C(0x7FFF) << 10 : between(table, size, 9);
    value = x >= 0 ? value + one : (UINT32_C(1) << 25) - value + one - 1U;
    return (int16_t)(value >> 10);
}

static int16_t tangent(const int32_t *table, int32_t x)
{
    uint32_t size = (uint32_t)(x < 0 ? -x : x);
    int32_t value =
        (int32_t)(size >> 8 >= TABLE_VALUES - 1 ? UINT32_C(0xFFFF) << 8 : between(table, size, 8)) - (1 << 23);
    value = x >= 0 ? value + (1 << 7) : -value + (1 << 7) - 1;
    return (int16_t)(value >> 8);
}

int32_t dtn_tfl_sigmoid_s16(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const int16_t *in = (const int16_t *)call->values[0].data;
    const int32_t *table = (const int32_t *)call->values[1].data;
    int16_t *out = (int16_t *)call->values[2].data;
    int64_t half = p->shift > 0 ? INT64_C(1) << (p->shift - 1) : 0;
    for (size_t i = 0; i < (size_t)p->elements; i++) {
        int32_t x = (int32_t)(((int64_t)in[i] * p->multiplier + half) >> p->shift);
        out[i] = p->tanh == 1 ? tangent(table, x) : logistic(table, x);
    }
    return DTN_OK;
}
