#include "../kernels/check/check.h"
#include "int16.h"

typedef dtn_cm_reduce_sum_s16_params_t params_t;

/* The elements under a sum times its factor have so many bits, so that the sum of int16 times the factor has 62. */
enum { SUM_BITS = 47 };

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 1, 1, params_t) || !dtn_cm_are(call->values, 2, DTN_TYPE_S16)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    return dtn_are_dimensions(DTN_LIST(p->outer, p->inner)) && p->reduced >= 1 &&
           p->reduced <= (int32_t)DTN_MAX_REDUCTION && p->divisor >= 1 && p->divisor <= (int32_t)DTN_MAX_REDUCTION &&
           dtn_is_mean_factor(p->mult, p->shift, p->divisor) &&
           (int64_t)p->reduced * p->mult < INT64_C(1) << SUM_BITS && p->in_zp == 0 && p->out_zp == 0 &&
           dtn_cm_has_size(&call->values[0], DTN_CM_LIST(2, p->outer, p->reduced, p->inner)) &&
           dtn_cm_has_size(&call->values[1], DTN_CM_LIST(2, p->outer, p->inner));
}

int32_t dtn_cm_reduce_sum_s16(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const int16_t *in = (const int16_t *)call->values[DTN_CM_REDUCE_SUM_S16_INPUT].data;
    int16_t *out = (int16_t *)call->values[DTN_CM_REDUCE_SUM_S16_OUTPUT].data;
    size_t inner = (size_t)p->inner;
    uint64_t divisor = (uint64_t)p->divisor << p->shift;
    for (int32_t o = 0; o < p->outer; o++, in += (size_t)p->reduced * inner) {
        for (size_t i = 0; i < inner; i++) {
            int64_t sum = 0; /* of at most 2^23 elements: 2^38 */
            for (int32_t k = 0; k < p->reduced; k++) {
                sum += in[(size_t)k * inner + i];
            }
            *out++ = dtn_cm_clamp_s16(dtn_rne_divide_signed(sum * p->mult, divisor), INT16_MIN, INT16_MAX);
        }
    }
    return DTN_OK;
}
