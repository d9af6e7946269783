#include "../check/check.h"

int32_t dtn_k_lut_s8(const dtn_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return (int32_t)dtn_check_lut_s8(call);
    }
    const dtn_lut_s8_params_t *p = (const dtn_lut_s8_params_t *)(const void *)call->params;
    const uint8_t *in = call->operands[DTN_LUT_S8_INPUT].data;
    const uint8_t *table = call->operands[DTN_LUT_S8_TABLE].data;
    uint8_t *out = call->operands[DTN_LUT_S8_OUTPUT].data;
    int32_t i = 0;
    /* Flipping the top bit of a byte adds 128 to its number. Four at a time: loads before stores. */
    for (; i + 3 < p->size; i += 4) {
        uint8_t a = table[in[i] ^ 0x80U];
        uint8_t b = table[in[i + 1] ^ 0x80U];
        uint8_t c = table[in[i + 2] ^ 0x80U];
        uint8_t d = table[in[i + 3] ^ 0x80U];
        out[i] = a;
        out[i + 1] = b;
        out[i + 2] = c;
        out[i + 3] = d;
    }
    for (; i < p->size; i++) {
        out[i] = table[in[i] ^ 0x80U];
    }
    return DTN_OK;
}
