#include "float32_common.h"

typedef dtn_tfl_svdf_f32_params_t params_t;

enum { INPUT, FEATURES, TIMES, BIAS };

static bool is_valid(const dtn_operator_call_t *call)
{
    if (call->param_count != sizeof(params_t) / sizeof(uint32_t)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    if ((p->has_bias != 0 && p->has_bias != 1) || call->input_count != (uint32_t)(BIAS + p->has_bias) ||
        call->output_count != 2 || !dtn_cm_are(call->values, call->input_count + 2, DTN_TYPE_F32)) {
        return false;
    }
    const dtn_tensor_t *values = call->values, *state = &values[BIAS + p->has_bias];
    return dtn_tfl_real(p->act_min) <= dtn_tfl_real(p->act_max) &&
           dtn_cm_has_size(&values[INPUT], DTN_CM_LIST(4, p->batches, p->in_features)) &&
           dtn_cm_has_size(&values[FEATURES], DTN_CM_LIST(4, p->units, p->rank, p->in_features)) &&
           dtn_cm_has_size(&values[TIMES], DTN_CM_LIST(4, p->units, p->rank, p->steps)) &&
           (p->has_bias == 0 || dtn_cm_has_size(&values[BIAS], DTN_CM_LIST(4, p->units))) &&
           dtn_cm_has_size(&state[0], DTN_CM_LIST(4, p->batches, p->units, p->rank, p->steps)) &&
           dtn_cm_has_size(&state[1], DTN_CM_LIST(4, p->batches, p->units));
}

static float dot(const float *a, const float *b, int32_t count)
{
    float sum = 0.0F;
    for (int32_t i = 0; i < count; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

int32_t dtn_tfl_svdf_f32(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *values = call->values;
    const float low = dtn_tfl_real(p->act_min), high = dtn_tfl_real(p->act_max);
    const float *input = (const float *)values[INPUT].data;
    float *state = (float *)values[BIAS + p->has_bias].data, *out = (float *)values[BIAS + p->has_bias + 1].data;
    for (int32_t batch = 0; batch < p->batches; batch++, input += p->in_features) {
        const float *features = (const float *)values[FEATURES].data, *times = (const float *)values[TIMES].data;
        for (int32_t unit = 0; unit < p->units; unit++) {
            float sum = p->has_bias == 1 ? ((const float *)values[BIAS].data)[unit] : 0.0F;
            for (int32_t i = 0; i < p->rank; i++) {
                memmove(state, state + 1, (size_t)(p->steps - 1) * sizeof *state);
                state[p->steps - 1] = dot(features, input, p->in_features);
                sum += dot(times, state, p->steps);
                features += p->in_features;
                times += p->steps;
                state += p->steps;
            }
            *out++ = dtn_tfl_clamp_f32(sum, low, high);
        }
    }
    return DTN_OK;
}
