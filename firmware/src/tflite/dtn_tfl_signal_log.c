#include "signal_common.h"

typedef dtn_tfl_signal_log_params_t params_t;

enum { PIECES = 128, PIECE_BITS = 16 - 7 };

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 2, 1, params_t)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *values = call->values;
    return p->correction_bits >= 0 && p->correction_bits <= 31 &&
           dtn_tfl_is_vector(&values[0], DTN_TYPE_U32, 4, p->channels) &&
           dtn_tfl_is_vector(&values[1], DTN_TYPE_S16, 2, PIECES + 1) &&
           dtn_tfl_is_vector(&values[2], DTN_TYPE_S16, 2, p->channels);
}

/* The binary logarithm of a number above 0, in steps of 2^-16. */
static uint32_t binary_logarithm(const int16_t *table, uint32_t x)
{
    int32_t whole = dtn_tfl_bits(x) - 1;
    int32_t rest = (int32_t)(x - (UINT32_C(1) << whole));
    rest = whole < 16 ? rest << (16 - whole) : rest >> (whole - 16);
    const int16_t *piece = table + (rest >> PIECE_BITS);
    int32_t within = rest & ((1 << PIECE_BITS) - 1);
    return ((uint32_t)whole << 16) + (uint32_t)(rest + piece[0] + (((piece[1] - piece[0]) * within) >> 16));
}

int32_t dtn_tfl_signal_log(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const uint32_t half = 1U << 15, ln_2 = 45426; /* in steps of 2^-16 */
    const uint32_t *in = (const uint32_t *)call->values[0].data;
    const int16_t *table = (const int16_t *)call->values[1].data;
    int16_t *out = (int16_t *)call->values[2].data;
    for (int32_t i = 0; i < p->channels; i++) {
        uint32_t x = in[i] << p->correction_bits;
        uint32_t binary = x > 1 ? binary_logarithm(table, x) : 0;
        uint32_t natural = (uint32_t)(((uint64_t)ln_2 * binary + half) >> 16);
        uint32_t scaled = ((uint32_t)p->scale * natural + half) >> 16;
        out[i] = (int16_t)(scaled < INT16_MAX ? scaled : INT16_MAX);
    }
    return DTN_OK;
}
