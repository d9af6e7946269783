#include "signal_common.h"

typedef dtn_tfl_signal_pcan_params_t params_t;

enum { GAINS = 4 * 32 - 3, SNR_BITS = 12, OUTPUT_BITS = 6 };

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 3, 1, params_t)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *values = call->values;
    return p->snr_shift >= 0 && p->snr_shift <= 63 && dtn_tfl_is_vector(&values[0], DTN_TYPE_U32, 4, p->channels) &&
           dtn_tfl_is_vector(&values[1], DTN_TYPE_U32, 4, p->channels) &&
           dtn_tfl_is_vector(&values[2], DTN_TYPE_S16, 2, GAINS) &&
           dtn_tfl_is_vector(&values[3], DTN_TYPE_U32, 4, p->channels);
}

/* The gain of a noise estimate: a polynomial of the ten bits behind the first one. */
static int16_t gain_of(const int16_t *gains, uint32_t noise)
{
    if (noise <= 2) {
        return gains[noise];
    }
    int32_t bits = dtn_tfl_bits(noise);
    int32_t x = (int32_t)((bits < 11 ? noise << (11 - bits) : noise >> (bits - 11)) & 0x3FF);
    const int16_t *terms = gains + 4 * bits - 6;
    int32_t slope = ((terms[2] * x) >> 5) + terms[1] * 32;
    int32_t change = (int32_t)((uint32_t)slope * (uint32_t)x + (1U << 14)) >> 15;
    return (int16_t)(change + terms[0]);
}

/* q^2 / 4 for quotients below 2, else q - 1. */
static uint32_t shrunk(uint32_t q)
{
    return q < 2U << SNR_BITS ? (q * q) >> (2 + 2 * SNR_BITS - OUTPUT_BITS)
                              : (q >> (SNR_BITS - OUTPUT_BITS)) - (1U << OUTPUT_BITS);
}

int32_t dtn_tfl_signal_pcan(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const uint32_t *in = (const uint32_t *)call->values[0].data, *noise = (const uint32_t *)call->values[1].data;
    const int16_t *gains = (const int16_t *)call->values[2].data;
    uint32_t *out = (uint32_t *)call->values[3].data;
    for (int32_t i = 0; i < p->channels; i++) {
        uint32_t gain = (uint32_t)gain_of(gains, noise[i]);
        out[i] = shrunk((uint32_t)(((uint64_t)in[i] * gain) >> p->snr_shift));
    }
    return DTN_OK;
}
