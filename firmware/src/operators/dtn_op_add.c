#include "strided_iterator.h"

static void run(const dtn_operator_call_t *call)
{
    const dtn_op_add_params_t *p = (const dtn_op_add_params_t *)(const void *)call->params;
    const float *a = (const float *)call->values[0].data;
    const float *b = (const float *)call->values[1].data;
    float *output = (float *)call->values[2].data;
    float alpha = dtn_float_of_bits(p->alpha);
    dtn_iterator_t at_a = {{0}, 0};
    dtn_iterator_t at_b = {{0}, 0};
    for (uint32_t left = dtn_tensor_elements(&call->values[2]); left != 0; left--) {
        float scaled = b[at_b.offset] * alpha;
        *output++ = a[at_a.offset] + scaled;
        dtn_iterator_next(&at_a, p->dims, p->a_strides);
        dtn_iterator_next(&at_b, p->dims, p->b_strides);
    }
}

int32_t dtn_op_add(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        bool good = dtn_binary_is_valid(call, sizeof(dtn_op_add_params_t), DTN_TYPE_F32, DTN_TYPE_F32);
        return good ? DTN_OK : DTN_REASON_OPERATOR;
    }
    run(call);
    return DTN_OK;
}
