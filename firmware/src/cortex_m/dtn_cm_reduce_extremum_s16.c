#include "../kernels/check/check.h"
#include "int16.h"

typedef dtn_cm_reduce_extremum_s16_params_t params_t;

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 1, 1, params_t) || !dtn_cm_are(call->values, 2, DTN_TYPE_S16)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    return dtn_are_dimensions(DTN_LIST(p->outer, p->inner)) && p->reduced >= 1 &&
           p->reduced <= (int32_t)DTN_MAX_REDUCTION && (p->maximum == 0 || p->maximum == 1) &&
           dtn_cm_has_size(&call->values[0], DTN_CM_LIST(2, p->outer, p->reduced, p->inner)) &&
           dtn_cm_has_size(&call->values[1], DTN_CM_LIST(2, p->outer, p->inner));
}

int32_t dtn_cm_reduce_extremum_s16(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const int16_t *in = (const int16_t *)call->values[DTN_CM_REDUCE_EXTREMUM_S16_INPUT].data;
    int16_t *out = (int16_t *)call->values[DTN_CM_REDUCE_EXTREMUM_S16_OUTPUT].data;
    size_t inner = (size_t)p->inner;
    for (int32_t o = 0; o < p->outer; o++, in += (size_t)p->reduced * inner) {
        for (size_t i = 0; i < inner; i++) {
            int16_t most = in[i];
            for (int32_t k = 1; k < p->reduced; k++) {
                int16_t value = in[(size_t)k * inner + i];
                most = (value > most) == (p->maximum == 1) ? value : most;
            }
            *out++ = most;
        }
    }
    return DTN_OK;
}
