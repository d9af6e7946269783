#include "../check/check.h"
#include "../requant.h"

enum { RANK = sizeof((dtn_mul_s8_params_t *)0)->dims / sizeof(int32_t) };

/* One step of a counter with the limits `dims`, last digit first. */
static void advance(int32_t *index, const int32_t *dims)
{
    for (int32_t d = RANK - 1; d >= 0; d--) {
        if (++index[d] < dims[d]) {
            return;
        }
        index[d] = 0;
    }
}

static int8_t element(const int8_t *data, const int32_t *index, const int32_t *strides)
{
    size_t at = 0;
    for (int32_t d = 0; d < RANK; d++) {
        at += (size_t)index[d] * (size_t)strides[d];
    }
    return data[at];
}

int32_t dtn_k_mul_s8(const dtn_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return (int32_t)dtn_check_mul_s8(call);
    }
    const dtn_mul_s8_params_t *p = (const dtn_mul_s8_params_t *)(const void *)call->params;
    const int8_t *a = (const int8_t *)call->operands[DTN_MUL_S8_A].data;
    const int8_t *b = (const int8_t *)call->operands[DTN_MUL_S8_B].data;
    int8_t *out = (int8_t *)call->operands[DTN_MUL_S8_OUTPUT].data;
    uint32_t count = call->operands[DTN_MUL_S8_OUTPUT].bytes;
    int32_t index[RANK] = {0};

    for (uint32_t i = 0; i < count; i++) {
        int64_t left = element(a, index, p->a_strides) - p->a_zp;
        int64_t right = element(b, index, p->b_strides) - p->b_zp;
        int64_t value = left * right * p->mult;
        out[i] = dtn_clamp_s8(p->out_zp + dtn_rne_shift(value, p->shift), p->act_min, p->act_max);
        advance(index, p->dims);
    }
    return DTN_OK;
}
