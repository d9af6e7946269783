#include "inner_loops.h"
#include "interleaved_weights.h"

typedef dtn_cm_interleaved_linear_params_t params_t;

static bool are_numbers(const params_t *p)
{
    return p->in_features <= DTN_CM_MAX_PRODUCTS && dtn_cm_is_offset(p->in_offset) && p->weight_offset == 0 &&
           dtn_cm_is_s8(p->out_offset) && dtn_cm_is_factor(p->multiplier, p->shift) &&
           dtn_cm_is_range(p->act_min, p->act_max) && p->has_bias == 0 && p->has_kernel_sum == 1 &&
           p->out_features >= 2 && p->out_features % 2 == 0;
}

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 3, 1, params_t)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *values = call->values;
    const int32_t words = (int32_t)dtn_cm_interleaved_words((size_t)p->in_features);
    return are_numbers(p) && dtn_cm_are(values, 2, DTN_TYPE_S8) && dtn_cm_are(values + 2, 1, DTN_TYPE_S32) &&
           dtn_cm_are(values + 3, 1, DTN_TYPE_S8) &&
           dtn_cm_has_size(&values[0], DTN_CM_LIST(p->rows, p->in_features)) &&
           dtn_cm_has_size(&values[1], DTN_CM_LIST(p->out_features, words, 2)) &&
           dtn_cm_has_size(&values[2], DTN_CM_LIST(4, p->out_features)) &&
           dtn_cm_has_size(&values[3], DTN_CM_LIST(p->rows, p->out_features));
}

/* Products that the inner loops do not support. */
static void multiply(const dtn_cm_product_t *product)
{
    const dtn_cm_factor_t factor = dtn_cm_factor(&product->scale, 0);
    for (size_t row = 0; row < product->rows; row++) {
        const int8_t *x = product->input + row * product->input_pitch;
        for (size_t channel = 0; channel < product->channels; channel++) {
            const int8_t *pair = product->weights + channel / 2 * 4 * dtn_cm_interleaved_words(product->depth);
            int32_t sum = 0;
            for (size_t k = 0; k < product->depth; k++) {
                sum += x[k] * dtn_cm_interleaved_weight(pair, product->depth, channel % 2, k);
            }
            product->output[row * product->output_pitch + channel] =
                dtn_cm_scaled(&product->scale, &factor, (uint32_t)product->bias[channel] + (uint32_t)sum);
        }
    }
}

int32_t dtn_cm_interleaved_linear(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_cm_product_t product = {
        .input = (const int8_t *)call->values[0].data,
        .weights = (const int8_t *)call->values[1].data,
        .bias = (const int32_t *)call->values[2].data,
        .output = (int8_t *)call->values[3].data,
        .rows = (size_t)p->rows,
        .depth = (size_t)p->in_features,
        .channels = (size_t)p->out_features,
        .input_pitch = (size_t)p->in_features,
        .output_pitch = (size_t)p->out_features,
        .scale = {&p->multiplier, &p->shift, 0, p->shift, p->out_offset, p->act_min, p->act_max},
    };
    if (!dtn_cm_multiply_interleaved(&product)) {
        multiply(&product);
    }
    return DTN_OK;
}
