#include "../kernels/requant.h"
#include "cortex_m.h"

typedef dtn_cm_cumsum_params_t params_t;

static bool is_valid(const dtn_operator_call_t *call)
{
    const dtn_tensor_t *values = call->values;
    if (!DTN_CM_IS_CALL(call, 1, 1, params_t) || !dtn_cm_are(values, 2, DTN_TYPE_S8)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    return values[0].bytes <= INT32_MAX && values[1].bytes == values[0].bytes && p->depth >= 1 &&
           p->depth <= (int32_t)DTN_MAX_REDUCTION &&
           dtn_cm_has_size(&values[0], DTN_CM_LIST(p->outer, p->depth, p->inner)) && dtn_cm_is_s8(p->in_zp) &&
           dtn_cm_is_s8(p->out_zp) && p->mult >= 0 && p->shift >= 1 && p->shift <= 62;
}

int32_t dtn_cm_cumsum(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const int8_t *in = (const int8_t *)call->values[DTN_CM_CUMSUM_INPUT].data;
    int8_t *out = (int8_t *)call->values[DTN_CM_CUMSUM_OUTPUT].data;
    const dtn_requant_row_t factor = {p->mult, p->shift};
    for (int32_t o = 0; o < p->outer; o++) {
        for (int32_t i = 0; i < p->inner; i++) {
            int32_t sum = 0;
            for (int32_t k = 0; k < p->depth; k++) {
                sum += in[k * p->inner + i] - p->in_zp;
                out[k * p->inner + i] = dtn_requant_s8(sum, factor, p->out_zp, INT8_MIN, INT8_MAX);
            }
        }
        in += p->depth * p->inner;
        out += p->depth * p->inner;
    }
    return DTN_OK;
}
