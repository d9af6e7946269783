#include "../check/check.h"

int32_t dtn_k_reduce_extremum_s8_ref(const dtn_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return (int32_t)dtn_check_reduce_extremum_s8(call);
    }
    const dtn_reduce_extremum_s8_params_t *p = (const dtn_reduce_extremum_s8_params_t *)(const void *)call->params;
    const int8_t *in = (const int8_t *)call->operands[DTN_REDUCE_EXTREMUM_S8_INPUT].data;
    int8_t *out = (int8_t *)call->operands[DTN_REDUCE_EXTREMUM_S8_OUTPUT].data;

    for (int32_t o = 0; o < p->outer; o++) {
        for (int32_t i = 0; i < p->inner; i++) {
            int8_t best = in[i];
            for (int32_t r = 1; r < p->reduced; r++) {
                int8_t value = in[(size_t)r * (size_t)p->inner + (size_t)i];
                best = (value > best) == (p->maximum == 1) ? value : best;
            }
            *out++ = best;
        }
        in += (size_t)p->reduced * (size_t)p->inner;
    }
    return DTN_OK;
}
