#include <float.h>
#include <string.h>

#include "../cortex_m/element_loops.h"
#include "operator.h"

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!dtn_operator_is_unary(call, DTN_DEQUANTIZE_PARAMS)) {
        return false;
    }
    const dtn_tensor_t *input = &call->values[0];
    const dtn_tensor_t *output = &call->values[1];
    dtn_range_t range = dtn_operator_range(input->type);
    int32_t zero_point = (int32_t)call->params[DTN_DEQUANTIZE_ZERO_POINT];
    bool shapes =
        output->type == DTN_TYPE_F32 && range.bytes != 0 && input->bytes / range.bytes == output->bytes / sizeof(float);
    return shapes && zero_point >= range.min && zero_point <= range.max;
}

static int32_t element(const dtn_tensor_t *input, uint32_t index)
{
    switch (input->type) {
    case DTN_TYPE_S16:
        return ((const int16_t *)input->data)[index];
    case DTN_TYPE_S8:
        return ((const int8_t *)input->data)[index];
    default:
        return ((const uint8_t *)input->data)[index];
    }
}

static void run(const dtn_operator_call_t *call)
{
    float *output = (float *)call->values[1].data;
    int32_t zero_point = (int32_t)call->params[DTN_DEQUANTIZE_ZERO_POINT];
    uint32_t count = call->values[1].bytes / (uint32_t)sizeof(float);
    float scale;
    memcpy(&scale, &call->params[DTN_DEQUANTIZE_SCALE], sizeof scale);
    if (call->values[0].type == DTN_TYPE_S8 && scale >= FLT_MIN && scale <= FLT_MAX) {
        dtn_cm_dequantize(scale, zero_point, (const int8_t *)call->values[0].data, output, count);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        output[i] = (float)(element(&call->values[0], i) - zero_point) * scale;
    }
}

int32_t dtn_op_dequantize_per_tensor(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    run(call);
    return DTN_OK;
}
