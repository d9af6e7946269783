#include "../check/check.h"

enum { RANK = sizeof((dtn_copy_s8_params_t *)0)->dims / sizeof(int32_t) };

/* One step of a counter with the limits `dims`, last digit first; false when it is back at its start. */
static bool advance(int32_t *index, const int32_t *dims)
{
    for (int32_t d = RANK - 1; d >= 0; d--) {
        if (++index[d] < dims[d]) {
            return true;
        }
        index[d] = 0;
    }
    return false;
}

static int64_t offset(int64_t at, const int32_t *index, const int32_t *strides)
{
    for (int32_t d = 0; d < RANK; d++) {
        at += (int64_t)index[d] * strides[d];
    }
    return at;
}

int32_t dtn_k_copy_s8_ref(const dtn_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return (int32_t)dtn_check_copy_s8(call);
    }
    const dtn_copy_s8_params_t *p = (const dtn_copy_s8_params_t *)(const void *)call->params;
    const uint8_t *in = call->operands[DTN_COPY_S8_INPUT].data;
    uint8_t *out = call->operands[DTN_COPY_S8_OUTPUT].data;
    int32_t index[RANK] = {0};

    do {
        out[offset(0, index, p->out_strides)] = in[offset(p->in_start, index, p->in_strides)];
    } while (advance(index, p->dims));
    return DTN_OK;
}
