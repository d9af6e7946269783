#include <float.h>
#include <string.h>

#include "../cortex_m/element_loops.h"
#include "operator.h"

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!dtn_operator_is_unary(call, DTN_QUANTIZE_PARAMS)) {
        return false;
    }
    const dtn_tensor_t *input = &call->values[0];
    const dtn_tensor_t *output = &call->values[1];
    dtn_range_t range = dtn_operator_range(output->type);
    int32_t zero_point = (int32_t)call->params[DTN_QUANTIZE_ZERO_POINT];
    int32_t min = (int32_t)call->params[DTN_QUANTIZE_MIN];
    int32_t max = (int32_t)call->params[DTN_QUANTIZE_MAX];
    bool shapes =
        input->type == DTN_TYPE_F32 && range.bytes != 0 && input->bytes / sizeof(float) == output->bytes / range.bytes;
    bool numbers =
        range.min <= min && min <= max && max <= range.max && zero_point >= range.min && zero_point <= range.max;
    return shapes && numbers;
}

static int32_t quantize(float quotient, int32_t zero_point, int32_t min, int32_t max)
{
    /* Beyond this the sum is outside the 16-bit range for any zero point. */
    const float far = 1048576.0F;
    /* NaN counts as outside, as the contract requires. */
    if (!(quotient < 9223372036854775808.0F)) {
        return min;
    }
    float near = quotient > far ? far : quotient < -far ? -far : quotient;
    int32_t value = zero_point + dtn_operator_round(near);
    return value < min ? min : value > max ? max : value;
}

static void run(const dtn_operator_call_t *call)
{
    /* Vector units flush subnormal numbers to 0. Up to this inverse such an input is far below one half. */
    const float most = 1.2676506e30F; /* 2^100 */
    const float *input = (const float *)call->values[0].data;
    const dtn_tensor_t *output = &call->values[1];
    int32_t zero_point = (int32_t)call->params[DTN_QUANTIZE_ZERO_POINT];
    int32_t min = (int32_t)call->params[DTN_QUANTIZE_MIN];
    int32_t max = (int32_t)call->params[DTN_QUANTIZE_MAX];
    uint32_t count = call->values[0].bytes / (uint32_t)sizeof(float);
    float scale;
    memcpy(&scale, &call->params[DTN_QUANTIZE_SCALE], sizeof scale);
    float inverse = 1.0F / scale;
    if (inverse >= FLT_MIN && inverse <= most) {
        const dtn_cm_quantization_t usual = {inverse, zero_point, min, max};
        if (output->type == DTN_TYPE_S16) {
            dtn_cm_quantize_s16(&usual, input, (int16_t *)output->data, count);
        } else {
            dtn_cm_quantize(&usual, input, (uint8_t *)output->data, count);
        }
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        int32_t value = quantize(input[i] * inverse, zero_point, min, max);
        if (output->type == DTN_TYPE_S16) {
            ((int16_t *)output->data)[i] = (int16_t)value;
        } else {
            /* The same byte for both signs. */
            ((uint8_t *)output->data)[i] = (uint8_t)value;
        }
    }
}

int32_t dtn_op_quantize_per_tensor(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    run(call);
    return DTN_OK;
}
