#include <string.h>

#include "../operators/operator.h"
#include "cortex_m.h"

typedef dtn_cm_quantized_div_params_t params_t;

static float scale_of(const params_t *p)
{
    float scale;
    memcpy(&scale, &p->scale, sizeof scale);
    return scale;
}

/* A range of int16, so that sums with numbers of 20 bits fit. */
static bool is_zero_point(int32_t number)
{
    return number >= INT16_MIN && number <= INT16_MAX;
}

static bool is_valid(const dtn_operator_call_t *call)
{
    const dtn_tensor_t *values = call->values;
    if (!DTN_CM_IS_CALL(call, 2, 1, params_t) || values[0].type == DTN_TYPE_U8 ||
        !dtn_cm_are(values, 3, values[0].type)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    dtn_range_t range = dtn_operator_range(values[0].type);
    float scale = scale_of(p);
    /* Written so that NaN is refused. A scale of 0 can stand for one that float32 cannot hold. */
    bool finite = scale >= 0.0F && scale <= 3.402823466e38F;
    return range.bytes != 0 && values[1].bytes == values[0].bytes && values[2].bytes == values[0].bytes && finite &&
           is_zero_point(p->a_zp) && is_zero_point(p->b_zp) && is_zero_point(p->out_zp);
}

static int32_t element(const dtn_tensor_t *value, uint32_t index)
{
    return value->type == DTN_TYPE_S8 ? ((const int8_t *)value->data)[index] : ((const int16_t *)value->data)[index];
}

static int32_t quotient(const params_t *p, int32_t a, int32_t b, float scale)
{
    /* Beyond this the sum is outside every range of 16 bits, whatever the zero point. */
    const float far = 1048576.0F;
    int32_t divisor = b - p->b_zp;
    float exact = divisor == 0 ? 0.0F : (float)(a - p->a_zp) / (float)divisor;
    float scaled = exact * scale;
    return p->out_zp + dtn_operator_round(scaled > far ? far : scaled < -far ? -far : scaled);
}

static void run(const dtn_operator_call_t *call)
{
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *a = &call->values[DTN_CM_QUANTIZED_DIV_A];
    const dtn_tensor_t *b = &call->values[DTN_CM_QUANTIZED_DIV_B];
    const dtn_tensor_t *output = &call->values[DTN_CM_QUANTIZED_DIV_OUTPUT];
    dtn_range_t range = dtn_operator_range(a->type);
    float scale = scale_of(p);
    uint32_t count = a->bytes / range.bytes;
    for (uint32_t i = 0; i < count; i++) {
        int32_t value = dtn_cm_clamp(quotient(p, element(a, i), element(b, i), scale), range.min, range.max);
        if (output->type == DTN_TYPE_S8) {
            ((int8_t *)output->data)[i] = (int8_t)value;
        } else {
            ((int16_t *)output->data)[i] = (int16_t)value;
        }
    }
}

int32_t dtn_cm_quantized_div(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    run(call);
    return DTN_OK;
}
