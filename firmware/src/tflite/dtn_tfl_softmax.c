#include "fixed_point.h"
#include "integer_common.h"

typedef dtn_tfl_softmax_params_t params_t;

/* A sum of powers has 12 whole bits. */
enum { WHOLE_BITS = 12 };

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 2, 1, params_t)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *in = &call->values[0], *table = &call->values[1], *out = &call->values[2];
    /* Each element adds at most 2^19 to a sum of 32 bits. */
    return in->type == DTN_TYPE_S8 && table->type == DTN_TYPE_S32 && dtn_tfl_is_activation(out->type) &&
           p->depth >= 1 && p->depth < 4096 && p->entries >= 1 && p->entries <= 256 &&
           dtn_cm_has_size(in, DTN_CM_LIST(p->rows, p->depth)) && dtn_cm_has_size(table, DTN_CM_LIST(4, p->entries)) &&
           dtn_cm_has_size(out, DTN_CM_LIST(p->rows, p->depth, (int32_t)dtn_tfl_item(out->type)));
}

static int32_t power(const params_t *p, const int32_t *table, int32_t difference)
{
    return difference < p->entries ? table[difference] : 0;
}

static void row(const params_t *p, const int32_t *table, const int8_t *in, const dtn_tensor_t *out, size_t first)
{
    const dtn_tfl_limits_t limits = dtn_tfl_limits(out->type);
    int32_t largest = INT8_MIN;
    for (int32_t i = 0; i < p->depth; i++) {
        largest = in[i] > largest ? in[i] : largest;
    }
    uint32_t sum = 0;
    for (int32_t i = 0; i < p->depth; i++) {
        sum += (uint32_t)dtn_cm_divide_by_power(power(p, table, largest - in[i]), WHOLE_BITS);
    }
    int32_t zeros = dtn_tfl_leading_zeros(sum);
    int32_t scale = dtn_tfl_one_over_one_plus((int32_t)((sum << zeros) - (UINT32_C(1) << 31)));
    int32_t shift = WHOLE_BITS - zeros + 31 - (out->type == DTN_TYPE_S16 ? 16 : 8);
    for (int32_t i = 0; i < p->depth; i++) {
        int32_t share = dtn_tfl_times(scale, power(p, table, largest - in[i]));
        int32_t value = dtn_cm_divide_by_power(share, shift) + limits.min;
        dtn_tfl_put(out, first + (size_t)i, dtn_cm_clamp(value, limits.min, limits.max));
    }
}

int32_t dtn_tfl_softmax(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const int8_t *in = (const int8_t *)call->values[0].data;
    const int32_t *table = (const int32_t *)call->values[1].data;
    if (!dtn_tfl_are_powers(table, p->entries, INT32_MAX)) {
        return DTN_REASON_OPERATOR;
    }
    for (int32_t i = 0; i < p->rows; i++) {
        size_t first = (size_t)i * (size_t)p->depth;
        row(p, table, in + first, &call->values[2], first);
    }
    return DTN_OK;
}
