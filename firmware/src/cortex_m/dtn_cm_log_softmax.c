/*
 * Logarithm of the softmax: an element less the largest, less the logarithm of the sum of all exponentials. These are a
 * table, as of one element below the largest by 0 to 255 steps; the logarithm comes bit by bit, by squaring.
 */
#include "../kernels/requant.h"
#include "cortex_m.h"

typedef dtn_cm_log_softmax_params_t params_t;

enum {
    TABLE_BYTES = 256 * 4,
    /* Fractional bits of the exponential, and of the logarithm to the base 2. */
    ONE_BITS = 30,
    LOG_BITS = 26,
    /* So that the logarithm fits 31 bits. */
    MOST_DEPTH = 1 << 16,
};

static bool is_valid(const dtn_operator_call_t *call)
{
    const dtn_tensor_t *values = call->values;
    if (!DTN_CM_IS_CALL(call, 2, 1, params_t) || values[0].type != DTN_TYPE_S8 || values[2].type != DTN_TYPE_S8 ||
        values[1].type != DTN_TYPE_S32 || values[1].bytes != TABLE_BYTES) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    return values[0].bytes <= INT32_MAX && values[2].bytes == values[0].bytes && p->depth <= MOST_DEPTH &&
           dtn_cm_has_size(&values[0], DTN_CM_LIST(p->outer, p->depth, p->inner)) && dtn_cm_is_s8(p->out_zp) &&
           p->mult >= 0 && p->shift >= 1 && p->shift <= 40 && p->log_mult >= 0 && p->log_shift >= 1 &&
           p->log_shift <= 62;
}

/* log2(sum / 2^30), with LOG_BITS behind the point; sum of 2^30 or more, below 2^47. */
static int32_t logarithm(uint64_t sum)
{
    int32_t result = 0;
    for (; sum >= UINT64_C(1) << (ONE_BITS + 1); sum >>= 1) {
        result += 1 << LOG_BITS;
    }
    /* Its square is below 4 when a number is below 2: whether it is 2 or more is the next bit of the logarithm. */
    for (int32_t bit = 1 << (LOG_BITS - 1); bit != 0; bit >>= 1) {
        sum = sum * sum >> ONE_BITS;
        if (sum >= UINT64_C(1) << (ONE_BITS + 1)) {
            sum >>= 1;
            result += bit;
        }
    }
    return result;
}

static void row(const params_t *p, const int32_t *table, const int8_t *in, int8_t *out)
{
    int32_t largest = INT8_MIN;
    for (int32_t k = 0; k < p->depth; k++) {
        largest = in[k * p->inner] > largest ? in[k * p->inner] : largest;
    }
    uint64_t sum = 0;
    for (int32_t k = 0; k < p->depth; k++) {
        sum += (uint32_t)table[largest - in[k * p->inner]];
    }
    /* Constants of a damaged program may say anything: the largest element itself is 1. */
    sum = sum < UINT64_C(1) << ONE_BITS ? UINT64_C(1) << ONE_BITS : sum;
    int64_t less = dtn_rne_shift((int64_t)logarithm(sum) * p->log_mult, p->log_shift);
    for (int32_t k = 0; k < p->depth; k++) {
        int64_t value = (int64_t)(in[k * p->inner] - largest) * p->mult - less;
        out[k * p->inner] = dtn_clamp_s8(p->out_zp + dtn_rne_shift(value, p->shift), INT8_MIN, INT8_MAX);
    }
}

int32_t dtn_cm_log_softmax(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const int32_t *table = (const int32_t *)call->values[DTN_CM_LOG_SOFTMAX_TABLE].data;
    const int8_t *in = (const int8_t *)call->values[DTN_CM_LOG_SOFTMAX_INPUT].data;
    int8_t *out = (int8_t *)call->values[DTN_CM_LOG_SOFTMAX_OUTPUT].data;
    for (int32_t o = 0; o < p->outer; o++) {
        for (int32_t i = 0; i < p->inner; i++) {
            row(p, table, in + i, out + i);
        }
        in += p->depth * p->inner;
        out += p->depth * p->inner;
    }
    return DTN_OK;
}
