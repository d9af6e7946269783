#include "signal_common.h"

typedef dtn_tfl_signal_filter_bank_params_t params_t;

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 4, 1, params_t)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *values = call->values;
    return dtn_tfl_is_vector(&values[0], DTN_TYPE_U32, 4, p->bins) &&
           dtn_tfl_is_vector(&values[1], DTN_TYPE_S16, 2, p->weights) &&
           dtn_tfl_is_vector(&values[2], DTN_TYPE_S16, 2, p->weights) && p->channels < INT32_MAX &&
           dtn_tfl_is_vector(&values[3], DTN_TYPE_S16, 2 * 3, p->channels + 1) &&
           dtn_tfl_is_vector(&values[4], DTN_TYPE_U64, 8, p->channels);
}

/* True for a band of these bins and weights. */
static bool is_band(const params_t *p, int32_t bin, int32_t weight, int32_t width)
{
    return bin >= 0 && weight >= 0 && width >= 0 && bin + width <= p->bins && weight + width <= p->weights;
}

int32_t dtn_tfl_signal_filter_bank(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const uint32_t *in = (const uint32_t *)call->values[0].data;
    const int16_t *weights = (const int16_t *)call->values[1].data, *unweights = (const int16_t *)call->values[2].data;
    const int16_t *bins = (const int16_t *)call->values[3].data, *starts = bins + p->channels + 1;
    const int16_t *widths = starts + p->channels + 1;
    uint64_t *out = (uint64_t *)call->values[4].data;
    uint64_t falling = 0; /* the sum over the band before, which no filter has before the first one */
    for (int32_t i = 0; i <= p->channels; i++) {
        if (!is_band(p, bins[i], starts[i], widths[i])) {
            return DTN_REASON_OPERATOR;
        }
        uint64_t rising = falling;
        falling = 0;
        for (int32_t j = 0; j < widths[i]; j++) {
            rising += (uint64_t)weights[starts[i] + j] * in[bins[i] + j];
            falling += (uint64_t)unweights[starts[i] + j] * in[bins[i] + j];
        }
        if (i > 0) {
            out[i - 1] = rising;
        }
    }
    return DTN_OK;
}
