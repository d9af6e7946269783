#include "../check/check.h"
#include "../requant.h"
#include "broadcast.h"

int32_t dtn_k_mul_s8_ref(const dtn_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return (int32_t)dtn_check_mul_s8(call);
    }
    const dtn_mul_s8_params_t *p = (const dtn_mul_s8_params_t *)(const void *)call->params;
    const int8_t *a = (const int8_t *)call->operands[DTN_MUL_S8_A].data;
    const int8_t *b = (const int8_t *)call->operands[DTN_MUL_S8_B].data;
    int8_t *out = (int8_t *)call->operands[DTN_MUL_S8_OUTPUT].data;
    uint32_t count = call->operands[DTN_MUL_S8_OUTPUT].bytes;
    int32_t index[DTN_BROADCAST_RANK] = {0};

    for (uint32_t i = 0; i < count; i++) {
        int64_t left = dtn_broadcast_element(a, index, p->a_strides) - p->a_zp;
        int64_t right = dtn_broadcast_element(b, index, p->b_strides) - p->b_zp;
        int64_t value = left * right * p->mult;
        out[i] = dtn_clamp_s8(p->out_zp + dtn_rne_shift(value, p->shift), p->act_min, p->act_max);
        dtn_broadcast_next(index, p->dims);
    }
    return DTN_OK;
}
