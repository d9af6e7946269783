#include "../check/check.h"

#include <string.h>

int32_t dtn_k_fill_s8(const dtn_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return (int32_t)dtn_check_fill_s8(call);
    }
    const dtn_fill_s8_params_t *p = (const dtn_fill_s8_params_t *)(const void *)call->params;
    memset(call->operands[DTN_FILL_S8_OUTPUT].data, (int)(uint8_t)p->value, (size_t)p->size);
    return DTN_OK;
}
