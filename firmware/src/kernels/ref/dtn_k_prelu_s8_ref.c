#include "../check/check.h"
#include "../requant.h"
#include "broadcast.h"

int32_t dtn_k_prelu_s8_ref(const dtn_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return (int32_t)dtn_check_prelu_s8(call);
    }
    const dtn_prelu_s8_params_t *p = (const dtn_prelu_s8_params_t *)(const void *)call->params;
    const int8_t *a = (const int8_t *)call->operands[DTN_PRELU_S8_A].data;
    const int8_t *b = (const int8_t *)call->operands[DTN_PRELU_S8_B].data;
    int8_t *out = (int8_t *)call->operands[DTN_PRELU_S8_OUTPUT].data;
    uint32_t count = call->operands[DTN_PRELU_S8_OUTPUT].bytes;
    dtn_requant_row_t above = {p->mult, p->shift};
    dtn_requant_row_t below = {p->alpha_mult, p->alpha_shift};
    int32_t index[DTN_BROADCAST_RANK] = {0};

    for (uint32_t i = 0; i < count; i++) {
        int32_t x = dtn_broadcast_element(a, index, p->a_strides) - p->a_zp;
        int32_t alpha = dtn_broadcast_element(b, index, p->b_strides) - p->b_zp;
        out[i] = x >= 0 ? dtn_requant_s8(x, above, p->out_zp, INT8_MIN, INT8_MAX)
                        : dtn_requant_s8(x * alpha, below, p->out_zp, INT8_MIN, INT8_MAX);
        dtn_broadcast_next(index, p->dims);
    }
    return DTN_OK;
}
