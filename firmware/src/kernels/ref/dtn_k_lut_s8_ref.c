#include "../check/check.h"

int32_t dtn_k_lut_s8_ref(const dtn_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return (int32_t)dtn_check_lut_s8(call);
    }
    const dtn_lut_s8_params_t *p = (const dtn_lut_s8_params_t *)(const void *)call->params;
    const int8_t *in = (const int8_t *)call->operands[DTN_LUT_S8_INPUT].data;
    const int8_t *table = (const int8_t *)call->operands[DTN_LUT_S8_TABLE].data;
    int8_t *out = (int8_t *)call->operands[DTN_LUT_S8_OUTPUT].data;
    for (int32_t i = 0; i < p->size; i++) {
        out[i] = table[in[i] + 128];
    }
    return DTN_OK;
}
