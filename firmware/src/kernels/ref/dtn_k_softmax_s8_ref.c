#include "../check/check.h"
#include "../requant.h"

int32_t dtn_k_softmax_s8_ref(const dtn_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return (int32_t)dtn_check_softmax_s8(call);
    }
    const dtn_softmax_s8_params_t *p = (const dtn_softmax_s8_params_t *)(const void *)call->params;
    const int8_t *in = (const int8_t *)call->operands[DTN_SOFTMAX_S8_INPUT].data;
    const uint32_t *table = (const uint32_t *)(const void *)call->operands[DTN_SOFTMAX_S8_TABLE].data;
    int8_t *out = (int8_t *)call->operands[DTN_SOFTMAX_S8_OUTPUT].data;

    for (int32_t r = 0; r < p->rows; r++) {
        int32_t largest = INT8_MIN;
        uint64_t sum = 0;
        for (int32_t i = 0; i < p->depth; i++) {
            largest = in[i] > largest ? in[i] : largest;
        }
        for (int32_t i = 0; i < p->depth; i++) {
            sum += table[largest - in[i]];
        }
        /* At most 2^16 elements of 2^30 and a shift of 16: the denominator reaches 2^62. */
        for (int32_t i = 0; i < p->depth; i++) {
            uint64_t scaled = (uint64_t)table[largest - in[i]] * (uint64_t)p->mult;
            uint64_t quotient = dtn_rne_divide(scaled, sum << p->shift);
            out[i] = dtn_clamp_s8(p->out_zp + (int64_t)quotient, INT8_MIN, INT8_MAX);
        }
        in += p->depth;
        out += p->depth;
    }
    return DTN_OK;
}
