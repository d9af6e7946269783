#include "fixed_point.h"
#include "lookup_s16.h"

typedef dtn_tfl_softmax_s16_params_t params_t;

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 3, 1, params_t)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *in = &call->values[0], *out = &call->values[3];
    /* Each element adds less than 2^15 to a sum below 2^31. */
    return in->type == DTN_TYPE_S16 && dtn_tfl_is_table(&call->values[1]) && dtn_tfl_is_table(&call->values[2]) &&
           out->type == DTN_TYPE_S16 && p->depth >= 1 && p->depth < 65536 &&
           dtn_tfl_is_factor(p->multiplier, p->shift) && dtn_cm_has_size(in, DTN_CM_LIST(2, p->rows, p->depth)) &&
           dtn_cm_has_size(out, DTN_CM_LIST(2, p->rows, p->depth));
}

static int32_t saturated(int32_t x)
{
    return dtn_cm_clamp(x, INT16_MIN, INT16_MAX);
}

static void row(const params_t *p, const int16_t *const *tables, const int16_t *in, int16_t *out)
{
    int32_t largest = INT16_MIN;
    for (int32_t i = 0; i < p->depth; i++) {
        largest = in[i] > largest ? in[i] : largest;
    }
    int32_t sum = 0;
    for (int32_t i = 0; i < p->depth; i++) {
        int32_t difference = dtn_cm_requantize(in[i] - largest, p->multiplier, p->shift);
        out[i] = dtn_tfl_look_up(tables[0], saturated(dtn_cm_plus(difference, INT16_MAX)));
        sum += out[i];
    }
    /* The largest element's power is near 1; other tables than powers of e give a number, too. */
    sum = sum < 1 << 14 ? 1 << 14 : sum;
    /* The sum as 1 to below 2 with 16 bits behind the point. */
    int32_t zeros = dtn_tfl_leading_zeros((uint32_t)sum);
    int32_t shifted = (int32_t)((((int64_t)sum << (zeros - 1)) + (1 << 13)) >> 14);
    int32_t reciprocal = dtn_tfl_look_up(tables[1], saturated(shifted - (1 << 15) - (1 << 16)));
    int32_t right = 31 - zeros;
    for (int32_t i = 0; i < p->depth; i++) {
        int32_t share = (int32_t)(((int64_t)out[i] * reciprocal + (INT64_C(1) << (right - 1))) >> right);
        out[i] = (int16_t)dtn_cm_clamp(share, 0, INT16_MAX);
    }
}

int32_t dtn_tfl_softmax_s16(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const int16_t *tables[] = {(const int16_t *)call->values[1].data, (const int16_t *)call->values[2].data};
    /* With a table of another function than the exponential, the sum may be 0 or less. */
    if (tables[0][DTN_TFL_TABLE_VALUES - 1] < 2 || tables[0][0] < 0) {
        return DTN_REASON_OPERATOR;
    }
    for (size_t i = 0; i < (size_t)p->rows; i++) {
        size_t first = i * (size_t)p->depth;
        row(p, tables, (const int16_t *)call->values[0].data + first, (int16_t *)call->values[3].data + first);
    }
    return DTN_OK;
}
