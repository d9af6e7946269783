#include "../check/check.h"
#include "../requant.h"

int32_t dtn_k_reduce_sum_s8_ref(const dtn_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return (int32_t)dtn_check_reduce_sum_s8(call);
    }
    const dtn_reduce_sum_s8_params_t *p = (const dtn_reduce_sum_s8_params_t *)(const void *)call->params;
    const int8_t *in = (const int8_t *)call->operands[DTN_REDUCE_SUM_S8_INPUT].data;
    int8_t *out = (int8_t *)call->operands[DTN_REDUCE_SUM_S8_OUTPUT].data;
    uint64_t divisor = (uint64_t)p->divisor << p->shift;

    for (int32_t o = 0; o < p->outer; o++) {
        for (int32_t i = 0; i < p->inner; i++) {
            int32_t sum = 0;
            for (int32_t r = 0; r < p->reduced; r++) {
                sum += in[((size_t)o * (size_t)p->reduced + (size_t)r) * (size_t)p->inner + (size_t)i] - p->in_zp;
            }
            *out++ = dtn_mean_s8(sum, p->mult, divisor, p->out_zp, INT8_MIN, INT8_MAX);
        }
    }
    return DTN_OK;
}
