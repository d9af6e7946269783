#include "fixed_point.h"
#include "integer_common.h"

typedef dtn_tfl_l2_normalize_params_t params_t;

/* Bits behind the point of an output. */
enum { OUTPUT_BITS = 7 };

/* A factor: multiplier * 2^(shift - 31). */
typedef struct {
    int32_t multiplier;
    int32_t shift;
} factor_t;

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 1, 1, params_t) || !dtn_cm_are(call->values, 2, DTN_TYPE_S8)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    /* A sum of squares stays below 2^31. */
    return p->depth >= 1 && p->depth <= 32768 && dtn_cm_is_s8(p->in_zp) &&
           dtn_cm_has_size(&call->values[0], DTN_CM_LIST(p->rows, p->depth)) &&
           dtn_cm_has_size(&call->values[1], DTN_CM_LIST(p->rows, p->depth));
}

/* 1 / sqrt(value): five steps of Newton's method on numbers with three whole bits; 0 counts as 1. */
static factor_t inverse_square_root(int32_t value)
{
    if (value <= 1) {
        return (factor_t){INT32_MAX, 0};
    }
    int32_t right = 11;
    for (; value >= 1 << 29; value /= 4) {
        right++;
    }
    int32_t pairs = (dtn_tfl_leading_zeros((uint32_t)value) - 1) / 2 - 1;
    right -= pairs;
    value = (int32_t)((uint32_t)value << (2 * pairs));
    int32_t input = value >> 1;
    int32_t half = dtn_cm_divide_by_power(input, 1);
    int32_t x = 1 << 28;
    for (int32_t i = 0; i < 5; i++) {
        int32_t cube = dtn_tfl_up(dtn_tfl_times(dtn_tfl_times(x, x), x), 6);
        x = dtn_tfl_up(dtn_tfl_times(3 << 27, x) - dtn_tfl_times(half, cube), 3);
    }
    int32_t multiplier = dtn_tfl_times(x, 1518500250); /* sqrt(2) / 2 */
    return right < 0 ? (factor_t){(int32_t)((uint32_t)multiplier << -right), 0} : (factor_t){multiplier, -right};
}

int32_t dtn_tfl_l2_normalize(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const int8_t *in = (const int8_t *)call->values[0].data;
    int8_t *out = (int8_t *)call->values[1].data;
    for (int32_t row = 0; row < p->rows; row++, in += p->depth, out += p->depth) {
        int32_t sum = 0;
        for (int32_t i = 0; i < p->depth; i++) {
            sum += (in[i] - p->in_zp) * (in[i] - p->in_zp);
        }
        factor_t by = inverse_square_root(sum);
        for (int32_t i = 0; i < p->depth; i++) {
            int32_t value = dtn_cm_requantize(in[i] - p->in_zp, by.multiplier, by.shift + OUTPUT_BITS);
            out[i] = (int8_t)dtn_cm_clamp(value, INT8_MIN, INT8_MAX);
        }
    }
    return DTN_OK;
}
