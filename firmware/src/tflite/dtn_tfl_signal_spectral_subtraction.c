#include <string.h>

#include "signal_common.h"

typedef dtn_tfl_signal_spectral_subtraction_params_t params_t;

enum { INPUT, STATE, OUTPUT, ESTIMATE };

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 1, 3, params_t)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    bool are = p->smoothing_bits >= 0 && p->smoothing_bits <= 31 && p->bits >= 0 && p->bits <= 63;
    for (uint32_t i = 0; i <= ESTIMATE; i++) {
        are = are && dtn_tfl_is_vector(&call->values[i], DTN_TYPE_U32, 4, p->channels);
    }
    return are;
}

/* A product of 64 bits; factors are unsigned. */
static uint64_t product(uint32_t x, int32_t factor)
{
    return (uint64_t)x * (uint32_t)factor;
}

int32_t dtn_tfl_signal_spectral_subtraction(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const uint32_t *in = (const uint32_t *)call->values[INPUT].data;
    uint32_t *state = (uint32_t *)call->values[STATE].data, *out = (uint32_t *)call->values[OUTPUT].data;
    for (int32_t i = 0; i < p->channels; i++) {
        bool is_odd = i % 2 == 1;
        int32_t smoothing = is_odd ? p->alternate_smoothing : p->smoothing;
        int32_t rest = is_odd ? p->alternate_one_minus_smoothing : p->one_minus_smoothing;
        uint32_t scaled = in[i] << p->smoothing_bits;
        uint32_t estimate = (uint32_t)((product(scaled, smoothing) + product(state[i], rest)) >> p->bits);
        uint32_t noise = estimate < scaled ? estimate : scaled;
        uint32_t least = (uint32_t)(product(in[i], p->min_signal_remaining) >> p->bits);
        uint32_t left = (scaled - noise) >> p->smoothing_bits;
        state[i] = p->clamping ? noise : estimate;
        out[i] = left > least ? left : least;
    }
    memcpy(call->values[ESTIMATE].data, state, call->values[STATE].bytes);
    return DTN_OK;
}
