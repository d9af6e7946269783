#include "exponential.h"
#include "float32_common.h"

typedef dtn_tfl_log_softmax_f32_params_t params_t;

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 1, 1, params_t)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    return dtn_tfl_are_rows_f32(call->values, p->rows, p->depth);
}

int32_t dtn_tfl_log_softmax_f32(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const float *in = (const float *)call->values[0].data;
    float *out = (float *)call->values[1].data;
    for (int32_t row = 0; row < p->rows; row++, in += p->depth, out += p->depth) {
        float largest = dtn_tfl_maximum_f32(in, p->depth);
        float sum = 0.0F;
        for (int32_t i = 0; i < p->depth; i++) {
            sum += dtn_tfl_exponential_f32(in[i] - largest);
        }
        float logarithm = (float)dtn_tfl_logarithm((double)sum);
        for (int32_t i = 0; i < p->depth; i++) {
            float difference = in[i] - largest;
            out[i] = difference - logarithm;
        }
    }
    return DTN_OK;
}
