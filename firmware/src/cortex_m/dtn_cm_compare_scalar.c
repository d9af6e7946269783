#include "cortex_m.h"

typedef dtn_cm_compare_scalar_params_t params_t;

enum { TABLE_BYTES = 256 };

static bool is_valid(const dtn_operator_call_t *call)
{
    const dtn_tensor_t *values = call->values;
    return DTN_CM_IS_CALL(call, 2, 1, params_t) && dtn_cm_are(values, 2, DTN_TYPE_S8) &&
           values[2].type == DTN_TYPE_BOOL && values[1].bytes == TABLE_BYTES && values[2].bytes == values[0].bytes &&
           (uint32_t)DTN_CM_PARAMS(call, params_t)->size == values[0].bytes;
}

int32_t dtn_cm_compare_scalar(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const int8_t *in = (const int8_t *)call->values[DTN_CM_COMPARE_SCALAR_INPUT].data;
    const int8_t *table = (const int8_t *)call->values[DTN_CM_COMPARE_SCALAR_TABLE].data;
    uint8_t *out = (uint8_t *)call->values[DTN_CM_COMPARE_SCALAR_OUTPUT].data;
    for (uint32_t i = 0; i < call->values[DTN_CM_COMPARE_SCALAR_OUTPUT].bytes; i++) {
        out[i] = table[in[i] - INT8_MIN] != 0 ? 1 : 0;
    }
    return DTN_OK;
}
