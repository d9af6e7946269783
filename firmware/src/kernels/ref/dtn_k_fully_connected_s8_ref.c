#include "../check/check.h"
#include "../requant.h"

int32_t dtn_k_fully_connected_s8_ref(const dtn_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return (int32_t)dtn_check_fully_connected_s8(call);
    }
    const dtn_fully_connected_s8_params_t *p = (const dtn_fully_connected_s8_params_t *)(const void *)call->params;
    const int8_t *in = (const int8_t *)call->operands[DTN_FULLY_CONNECTED_S8_INPUT].data;
    const int8_t *weights = (const int8_t *)call->operands[DTN_FULLY_CONNECTED_S8_WEIGHTS].data;
    const int32_t *bias = (const int32_t *)(const void *)call->operands[DTN_FULLY_CONNECTED_S8_BIAS].data;
    const dtn_requant_row_t *rows =
        (const dtn_requant_row_t *)(const void *)call->operands[DTN_FULLY_CONNECTED_S8_REQUANT].data;
    int8_t *out = (int8_t *)call->operands[DTN_FULLY_CONNECTED_S8_OUTPUT].data;

    for (int32_t r = 0; r < p->rows; r++) {
        for (int32_t o = 0; o < p->out_features; o++) {
            const int8_t *weight = weights + (size_t)o * (size_t)p->in_features;
            uint32_t sum = (uint32_t)bias[o];
            for (int32_t i = 0; i < p->in_features; i++) {
                sum += (uint32_t)((in[i] - p->in_zp) * weight[i]);
            }
            dtn_requant_row_t row = rows[p->requant_count == 1 ? 0 : o];
            *out++ = dtn_requant_s8(dtn_as_signed(sum), row, p->out_zp, p->act_min, p->act_max);
        }
        in += p->in_features;
    }
    return DTN_OK;
}
