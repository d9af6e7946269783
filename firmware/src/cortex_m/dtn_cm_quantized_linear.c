#include "dot_product_s8.h"
#include "inner_loops.h"

typedef dtn_cm_quantized_linear_params_t params_t;

static bool is_flag(int32_t word)
{
    return word == 0 || word == 1;
}

static bool are_numbers(const params_t *p)
{
    return p->in_features <= DTN_CM_MAX_PRODUCTS && dtn_cm_is_offset(p->in_offset) &&
           dtn_cm_is_offset(p->weight_offset) && dtn_cm_is_s8(p->out_offset) &&
           dtn_cm_is_factor(p->multiplier, p->shift) && dtn_cm_is_range(p->act_min, p->act_max) &&
           is_flag(p->has_bias) && is_flag(p->has_kernel_sum) && p->has_bias + p->has_kernel_sum <= 1;
}

static bool is_valid(const dtn_operator_call_t *call)
{
    if (call->param_count != sizeof(params_t) / sizeof(uint32_t)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    if (!are_numbers(p)) {
        return false;
    }
    uint32_t addend = (uint32_t)(p->has_bias + p->has_kernel_sum);
    uint32_t inputs = 2 + addend;
    const dtn_tensor_t *values = call->values;
    return call->input_count == inputs && call->output_count == 1 && dtn_cm_are(values, 2, DTN_TYPE_S8) &&
           dtn_cm_are(values + 2, addend, DTN_TYPE_S32) && dtn_cm_are(values + inputs, 1, DTN_TYPE_S8) &&
           dtn_cm_has_size(&values[0], DTN_CM_LIST(p->rows, p->in_features)) &&
           dtn_cm_has_size(&values[1], DTN_CM_LIST(p->out_features, p->in_features)) &&
           (addend == 0 || dtn_cm_has_size(&values[2], DTN_CM_LIST(4, p->out_features))) &&
           dtn_cm_has_size(&values[inputs], DTN_CM_LIST(p->rows, p->out_features));
}

int32_t dtn_cm_quantized_linear(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    dtn_cm_product_t product = {
        .input = (const int8_t *)call->values[DTN_CM_QUANTIZED_LINEAR_INPUT].data,
        .weights = (const int8_t *)call->values[DTN_CM_QUANTIZED_LINEAR_WEIGHTS].data,
        /* The bias or, third as well, the kernel sum. */
        .bias = call->input_count > 2 ? (const int32_t *)call->values[2].data : NULL,
        .output = (int8_t *)call->values[call->input_count].data,
        .rows = (size_t)p->rows,
        .depth = (size_t)p->in_features,
        .channels = (size_t)p->out_features,
        .input_pitch = (size_t)p->in_features,
        .output_pitch = (size_t)p->out_features,
        /* The kernel sum has what the offset adds. */
        .input_offset = p->has_kernel_sum == 1 ? 0 : p->in_offset,
        .weight_offset = p->weight_offset,
        .scale = {&p->multiplier, &p->shift, 0, p->shift, p->out_offset, p->act_min, p->act_max},
    };
    dtn_cm_multiply(&product);
    return DTN_OK;
}
