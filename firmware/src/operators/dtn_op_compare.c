#include "strided_iterator.h"

typedef dtn_op_compare_params_t params_t;

enum { EQUAL = 0, DIFFERENT = 1, GREATER = 2, GREATER_OR_EQUAL = 3 };

static bool is_valid(const dtn_operator_call_t *call)
{
    uint32_t type = call->values[0].type;
    if ((type != DTN_TYPE_F32 && type != DTN_TYPE_S8) ||
        !dtn_binary_is_valid(call, sizeof(params_t), type, DTN_TYPE_BOOL)) {
        return false;
    }
    int32_t relation = ((const params_t *)(const void *)call->params)->relation;
    return relation >= EQUAL && relation <= GREATER_OR_EQUAL;
}

static bool holds(int32_t relation, bool equal, bool greater)
{
    switch (relation) {
    case EQUAL:
        return equal;
    case DIFFERENT:
        return !equal;
    case GREATER:
        return greater;
    default:
        return equal || greater;
    }
}

static bool compare_f32(const dtn_tensor_t *values, uint32_t a, uint32_t b, int32_t relation)
{
    float x = ((const float *)values[0].data)[a];
    float y = ((const float *)values[1].data)[b];
    return holds(relation, x == y, x > y);
}

static bool compare_s8(const dtn_tensor_t *values, uint32_t a, uint32_t b, int32_t relation)
{
    int8_t x = ((const int8_t *)values[0].data)[a];
    int8_t y = ((const int8_t *)values[1].data)[b];
    return holds(relation, x == y, x > y);
}

static void run(const dtn_operator_call_t *call)
{
    const params_t *p = (const params_t *)(const void *)call->params;
    uint8_t *output = (uint8_t *)call->values[2].data;
    dtn_iterator_t a = {{0}, 0};
    dtn_iterator_t b = {{0}, 0};
    bool is_float = call->values[0].type == DTN_TYPE_F32;
    for (uint32_t left = call->values[2].bytes; left != 0; left--) {
        *output++ = is_float ? compare_f32(call->values, a.offset, b.offset, p->relation)
                             : compare_s8(call->values, a.offset, b.offset, p->relation);
        dtn_iterator_next(&a, p->dims, p->a_strides);
        dtn_iterator_next(&b, p->dims, p->b_strides);
    }
}

int32_t dtn_op_compare(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    run(call);
    return DTN_OK;
}
