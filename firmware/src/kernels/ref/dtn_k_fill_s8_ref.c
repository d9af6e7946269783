#include "../check/check.h"

int32_t dtn_k_fill_s8_ref(const dtn_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return (int32_t)dtn_check_fill_s8(call);
    }
    const dtn_fill_s8_params_t *p = (const dtn_fill_s8_params_t *)(const void *)call->params;
    int8_t *out = (int8_t *)call->operands[DTN_FILL_S8_OUTPUT].data;
    for (int32_t i = 0; i < p->size; i++) {
        out[i] = (int8_t)p->value;
    }
    return DTN_OK;
}
