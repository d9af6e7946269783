#include "signal_common.h"

typedef dtn_tfl_signal_energy_params_t params_t;

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 1, 1, params_t)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    return p->first >= 0 && p->past >= p->first && p->past <= p->bins &&
           dtn_tfl_is_vector(&call->values[0], DTN_TYPE_S16, 2 * 2, p->bins) &&
           dtn_tfl_is_vector(&call->values[1], DTN_TYPE_U32, 4, p->bins);
}

int32_t dtn_tfl_signal_energy(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const int16_t *in = (const int16_t *)call->values[0].data;
    uint32_t *out = (uint32_t *)call->values[1].data;
    for (int32_t i = 0; i < p->bins; i++) {
        int32_t real = in[2 * i], imaginary = in[2 * i + 1];
        bool counts = i >= p->first && i < p->past;
        out[i] = counts ? (uint32_t)(real * real) + (uint32_t)(imaginary * imaginary) : 0;
    }
    return DTN_OK;
}
