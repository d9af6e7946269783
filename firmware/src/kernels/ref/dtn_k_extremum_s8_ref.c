#include "../check/check.h"
#include "broadcast.h"

int32_t dtn_k_extremum_s8_ref(const dtn_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return (int32_t)dtn_check_extremum_s8(call);
    }
    const dtn_extremum_s8_params_t *p = (const dtn_extremum_s8_params_t *)(const void *)call->params;
    const int8_t *a = (const int8_t *)call->operands[DTN_EXTREMUM_S8_A].data;
    const int8_t *b = (const int8_t *)call->operands[DTN_EXTREMUM_S8_B].data;
    int8_t *out = (int8_t *)call->operands[DTN_EXTREMUM_S8_OUTPUT].data;
    uint32_t count = call->operands[DTN_EXTREMUM_S8_OUTPUT].bytes;
    int32_t index[DTN_BROADCAST_RANK] = {0};

    for (uint32_t i = 0; i < count; i++) {
        int8_t left = dtn_broadcast_element(a, index, p->a_strides);
        int8_t right = dtn_broadcast_element(b, index, p->b_strides);
        out[i] = (left > right) == (p->maximum == 1) ? left : right;
        dtn_broadcast_next(index, p->dims);
    }
    return DTN_OK;
}
