#include "cortex_m.h"

typedef dtn_cm_argmax_argmin_params_t params_t;

static bool is_valid(const dtn_operator_call_t *call)
{
    const dtn_tensor_t *values = call->values;
    if (!DTN_CM_IS_CALL(call, 1, 1, params_t) || values[0].type != DTN_TYPE_S8 || values[1].type != DTN_TYPE_S64) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    return values[0].bytes <= INT32_MAX && (p->maximum == 0 || p->maximum == 1) &&
           dtn_cm_has_size(&values[0], DTN_CM_LIST(p->outer, p->reduced, p->inner)) &&
           dtn_cm_has_size(&values[1], DTN_CM_LIST(p->outer, p->inner, (int32_t)sizeof(int64_t)));
}

/* The first place of the largest, or least, of `count` elements. */
static int32_t place_of(const int8_t *in, int32_t count, int32_t step, bool is_maximum)
{
    int32_t place = 0;
    int8_t best = in[0];
    for (int32_t i = 1; i < count; i++) {
        int8_t x = in[i * step];
        if (is_maximum ? x > best : x < best) {
            best = x;
            place = i;
        }
    }
    return place;
}

int32_t dtn_cm_argmax_argmin(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const int8_t *in = (const int8_t *)call->values[DTN_CM_ARGMAX_ARGMIN_INPUT].data;
    int64_t *out = (int64_t *)call->values[DTN_CM_ARGMAX_ARGMIN_OUTPUT].data;
    for (int32_t o = 0; o < p->outer; o++) {
        for (int32_t i = 0; i < p->inner; i++) {
            *out++ = place_of(in + i, p->reduced, p->inner, p->maximum == 1);
        }
        in += p->reduced * p->inner;
    }
    return DTN_OK;
}
