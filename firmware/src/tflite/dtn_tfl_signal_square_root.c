#include "signal_common.h"

typedef dtn_tfl_signal_square_root_params_t params_t;

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 2, 1, params_t)) {
        return false;
    }
    int32_t channels = DTN_CM_PARAMS(call, params_t)->channels;
    const dtn_tensor_t *values = call->values;
    return dtn_tfl_is_vector(&values[0], DTN_TYPE_U64, 8, channels) &&
           dtn_tfl_is_vector(&values[1], DTN_TYPE_S32, 4, 1) &&
           dtn_tfl_is_vector(&values[2], DTN_TYPE_U32, 4, channels);
}

/* The root, rounded to nearest, bit by bit. */
static uint32_t root_of(uint64_t x)
{
    const uint64_t most = x >> 32 == 0 ? UINT16_MAX : UINT32_MAX;
    uint64_t root = 0, bit = UINT64_C(1) << 62;
    while (bit > x) {
        bit >>= 2;
    }
    for (; bit != 0; bit >>= 2) {
        bool is_set = x >= root + bit;
        x -= is_set ? root + bit : 0;
        root = (root >> 1) + (is_set ? bit : 0);
    }
    return (uint32_t)(x > root && root < most ? root + 1 : root);
}

int32_t dtn_tfl_signal_square_root(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const uint64_t *in = (const uint64_t *)call->values[0].data;
    const int32_t bits = *(const int32_t *)call->values[1].data;
    uint32_t *out = (uint32_t *)call->values[2].data;
    for (int32_t i = 0; i < DTN_CM_PARAMS(call, params_t)->channels; i++) {
        out[i] = bits > 31 ? 0 : root_of(in[i]) >> (bits < 0 ? 0 : bits);
    }
    return DTN_OK;
}
