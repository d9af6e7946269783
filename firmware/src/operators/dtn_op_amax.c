#include "strided_iterator.h"

typedef dtn_op_amax_params_t params_t;

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!dtn_operator_is_unary(call, sizeof(params_t) / sizeof(uint32_t))) {
        return false;
    }
    const params_t *p = (const params_t *)(const void *)call->params;
    const dtn_tensor_t *input = &call->values[0];
    const dtn_tensor_t *output = &call->values[1];
    int32_t dims[2 * DTN_ITERATOR_RANK];
    int32_t strides[2 * DTN_ITERATOR_RANK];
    memcpy(dims, p->kept, sizeof p->kept);
    memcpy(strides, p->kept_strides, sizeof p->kept_strides);
    memcpy(dims + DTN_ITERATOR_RANK, p->reduced, sizeof p->reduced);
    memcpy(strides + DTN_ITERATOR_RANK, p->reduced_strides, sizeof p->reduced_strides);
    return (input->type == DTN_TYPE_F32 || input->type == DTN_TYPE_S8) && output->type == input->type &&
           dtn_dims_cover(p->kept, DTN_ITERATOR_RANK, dtn_tensor_elements(output)) &&
           dtn_dims_cover(dims, 2 * DTN_ITERATOR_RANK, dtn_tensor_elements(input)) &&
           dtn_strides_fit(dims, strides, 2 * DTN_ITERATOR_RANK, dtn_tensor_elements(input));
}

/* True if b replaces a: NaN, which differs from itself, replaces any value and remains. */
static bool is_larger(float a, float b)
{
    return b > a || b != b;
}

static uint32_t largest(const dtn_operator_call_t *call, const params_t *p, uint32_t start, uint32_t count)
{
    const dtn_tensor_t *input = &call->values[0];
    const float *f32 = (const float *)input->data;
    const int8_t *s8 = (const int8_t *)input->data;
    uint32_t best = start;
    dtn_iterator_t iterator = {{0}, 0};
    for (uint32_t left = count; left != 0; left--) {
        uint32_t at = start + iterator.offset;
        if (input->type == DTN_TYPE_F32 ? is_larger(f32[best], f32[at]) : s8[at] > s8[best]) {
            best = at;
        }
        dtn_iterator_next(&iterator, p->reduced, p->reduced_strides);
    }
    return best;
}

static void run(const dtn_operator_call_t *call)
{
    const params_t *p = (const params_t *)(const void *)call->params;
    const uint8_t *input = (const uint8_t *)call->values[0].data;
    uint8_t *output = (uint8_t *)call->values[1].data;
    uint32_t item = dtn_element_bytes(call->values[0].type);
    uint32_t kept = dtn_tensor_elements(&call->values[1]);
    uint32_t reduced = dtn_tensor_elements(&call->values[0]) / kept;
    dtn_iterator_t iterator = {{0}, 0};
    for (uint32_t i = 0; i < kept; i++) {
        memcpy(output + (size_t)i * item, input + (size_t)largest(call, p, iterator.offset, reduced) * item, item);
        dtn_iterator_next(&iterator, p->kept, p->kept_strides);
    }
}

int32_t dtn_op_amax(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    run(call);
    return DTN_OK;
}
