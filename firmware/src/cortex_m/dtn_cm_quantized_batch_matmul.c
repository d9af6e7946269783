#include "dot_product_s8.h"
#include "inner_loops.h"

typedef dtn_cm_quantized_batch_matmul_params_t params_t;

enum {
    A = DTN_CM_QUANTIZED_BATCH_MATMUL_A,
    B = DTN_CM_QUANTIZED_BATCH_MATMUL_B,
    SCRATCH = DTN_CM_QUANTIZED_BATCH_MATMUL_SCRATCH,
    OUTPUT = DTN_CM_QUANTIZED_BATCH_MATMUL_OUTPUT,
};

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 2, 2, params_t)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *values = call->values;
    bool types = dtn_cm_are(values, 2, DTN_TYPE_S8) && dtn_cm_are(&values[SCRATCH], 1, DTN_TYPE_U8) &&
                 dtn_cm_are(&values[OUTPUT], 1, DTN_TYPE_S8);
    bool numbers = p->depth <= DTN_CM_MAX_PRODUCTS && dtn_cm_is_offset(p->a_offset) && dtn_cm_is_offset(p->b_offset) &&
                   dtn_cm_is_s8(p->out_offset) && dtn_cm_is_factor(p->multiplier, p->shift);
    return types && numbers && dtn_cm_has_size(&values[A], DTN_CM_LIST(p->batches, p->rows, p->depth)) &&
           dtn_cm_has_size(&values[B], DTN_CM_LIST(p->batches, p->columns, p->depth)) &&
           dtn_cm_has_size(&values[OUTPUT], DTN_CM_LIST(p->batches, p->rows, p->columns));
}

static void run(const dtn_operator_call_t *call)
{
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    dtn_cm_product_t product = {
        .input = (const int8_t *)call->values[A].data,
        .weights = (const int8_t *)call->values[B].data,
        .output = (int8_t *)call->values[OUTPUT].data,
        .rows = (size_t)p->rows,
        .depth = (size_t)p->depth,
        .channels = (size_t)p->columns,
        .input_pitch = (size_t)p->depth,
        .output_pitch = (size_t)p->columns,
        .input_offset = p->a_offset,
        .weight_offset = p->b_offset,
        .scale = {&p->multiplier, &p->shift, 0, p->shift, p->out_offset, INT8_MIN, INT8_MAX},
    };
    for (int32_t b = 0; b < p->batches; b++) {
        dtn_cm_multiply(&product);
        product.input += product.rows * product.depth;
        product.weights += product.channels * product.depth;
        product.output += product.rows * product.channels;
    }
}

int32_t dtn_cm_quantized_batch_matmul(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    run(call);
    return DTN_OK;
}
