#include "../check/check.h"
#include "../single_rounding/single_rounding_factors.h"

/* Rows that are longer than the inner loops take. */
static void long_rows(const dtn_cm_product_t *product, const dtn_sr_outputs_t *outputs)
{
    for (size_t row = 0; row < product->rows; row++) {
        for (size_t channel = 0; channel < product->channels; channel++) {
            const int8_t *input = product->input + row * product->depth;
            const int8_t *weights = product->weights + channel * product->depth;
            uint32_t sum = (uint32_t)product->bias[channel];
            for (size_t k = 0; k < product->depth; k++) {
                sum += (uint32_t)((input[k] + product->input_offset) * weights[k]);
            }
            product->output[row * product->channels + channel] = dtn_sr_output(outputs, channel, sum);
        }
    }
}

static void some_channels(const dtn_cm_product_t *all, const dtn_sr_outputs_t *outputs, size_t first, size_t count)
{
    dtn_sr_factors_t factors;
    dtn_cm_product_t product = *all;
    product.weights += first * product.depth;
    product.bias += first;
    product.output += first;
    product.channels = count;
    product.scale =
        outputs->is_shared ? dtn_sr_shared_scale(outputs, &factors) : dtn_sr_scale(outputs, first, count, &factors);
    dtn_sr_multiply(&product);
}

int32_t dtn_k_fully_connected_s8(const dtn_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return (int32_t)dtn_check_fully_connected_s8(call);
    }
    const dtn_operand_t *operands = call->operands;
    const dtn_fully_connected_s8_params_t *p = (const dtn_fully_connected_s8_params_t *)(const void *)call->params;
    const dtn_sr_outputs_t outputs = {
        .rows = (const dtn_requant_row_t *)(const void *)operands[DTN_FULLY_CONNECTED_S8_REQUANT].data,
        .is_shared = p->requant_count == 1,
        .zero_point = p->out_zp,
        .lo = p->act_min,
        .hi = p->act_max,
    };
    const dtn_cm_product_t product = {
        .input = (const int8_t *)operands[DTN_FULLY_CONNECTED_S8_INPUT].data,
        .weights = (const int8_t *)operands[DTN_FULLY_CONNECTED_S8_WEIGHTS].data,
        .bias = (const int32_t *)(const void *)operands[DTN_FULLY_CONNECTED_S8_BIAS].data,
        .output = (int8_t *)operands[DTN_FULLY_CONNECTED_S8_OUTPUT].data,
        .rows = (size_t)p->rows,
        .depth = (size_t)p->in_features,
        .channels = (size_t)p->out_features,
        .input_pitch = (size_t)p->in_features,
        .output_pitch = (size_t)p->out_features,
        .input_offset = -p->in_zp,
    };
    if (product.depth > DTN_CM_MAX_PRODUCTS) {
        long_rows(&product, &outputs);
        return DTN_OK;
    }
    for (size_t first = 0, count; first < product.channels; first += count) {
        count = outputs.is_shared ? product.channels : dtn_sr_channels(product.channels - first);
        some_channels(&product, &outputs, first, count);
    }
    return DTN_OK;
}
