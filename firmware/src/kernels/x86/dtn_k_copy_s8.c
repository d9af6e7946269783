#include <string.h>

#include "../check/check.h"
#include "level.h"

enum { RANK = sizeof((dtn_copy_s8_params_t *)0)->dims / sizeof(int32_t), PLANES = 3 };

/* True if three planes become pixels, as for colour images of PyTorch. */
static bool are_planes(const dtn_copy_s8_params_t *p)
{
    bool outer = p->in_start >= 0;
    for (int32_t i = 0; i < RANK - 2; i++) {
        outer = outer && p->dims[i] == 1;
    }
    return outer && p->dims[RANK - 1] == PLANES && p->in_strides[RANK - 2] == 1 && p->in_strides[RANK - 1] > 0 &&
           p->out_strides[RANK - 1] == 1 && p->out_strides[RANK - 2] == PLANES;
}

/* Plain, for the compiler to make vectors of. */
int32_t DTN_LEVEL_NAME(dtn_k_copy_s8)(const dtn_call_t *call, dtn_phase_t phase)
{
    const dtn_copy_s8_params_t *p = (const dtn_copy_s8_params_t *)(const void *)call->params;
    if (phase == DTN_PHASE_CHECK || !are_planes(p)) {
        return dtn_k_copy_s8(call, phase);
    }
    size_t count = (size_t)p->dims[RANK - 2];
    const uint8_t *restrict a = call->operands[DTN_COPY_S8_INPUT].data + p->in_start;
    const uint8_t *restrict b = a + p->in_strides[RANK - 1];
    const uint8_t *restrict c = b + p->in_strides[RANK - 1];
    uint8_t *restrict out = call->operands[DTN_COPY_S8_OUTPUT].data;
    for (size_t i = 0; i < count; i++) {
        out[PLANES * i] = a[i];
        out[PLANES * i + 1] = b[i];
        out[PLANES * i + 2] = c[i];
    }
    return DTN_OK;
}
