#include "strided_iterator.h"

typedef dtn_op_clamp_params_t params_t;

static bool is_valid(const dtn_operator_call_t *call)
{
    const dtn_tensor_t *input = &call->values[0];
    const dtn_tensor_t *output = &call->values[1];
    return dtn_operator_is_unary(call, sizeof(params_t) / sizeof(uint32_t)) &&
           (input->type == DTN_TYPE_F32 || input->type == DTN_TYPE_S8) && output->type == input->type &&
           output->bytes == input->bytes;
}

static void run_s8(const dtn_operator_call_t *call, const params_t *p)
{
    const int8_t *input = (const int8_t *)call->values[0].data;
    int8_t *output = (int8_t *)call->values[1].data;
    for (uint32_t i = 0; i < call->values[1].bytes; i++) {
        int32_t x = input[i] < p->low ? p->low : input[i];
        output[i] = (int8_t)(x > p->high ? p->high : x);
    }
}

/* NaN is neither below nor above, and remains. */
static void run_f32(const dtn_operator_call_t *call, const params_t *p)
{
    const float *input = (const float *)call->values[0].data;
    float *output = (float *)call->values[1].data;
    float low = dtn_float_of_bits(p->low);
    float high = dtn_float_of_bits(p->high);
    for (uint32_t i = 0; i < call->values[1].bytes / sizeof(float); i++) {
        float x = input[i] < low ? low : input[i];
        output[i] = x > high ? high : x;
    }
}

int32_t dtn_op_clamp(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = (const params_t *)(const void *)call->params;
    (call->values[0].type == DTN_TYPE_F32 ? run_f32 : run_s8)(call, p);
    return DTN_OK;
}
