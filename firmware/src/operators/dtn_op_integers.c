#include "strided_iterator.h"

typedef dtn_op_integers_params_t params_t;

enum { ADD = 0, MUL = 1, REMAINDER = 2, EQUAL = 4, DIFFERENT = 5, GREATER = 6, GREATER_OR_EQUAL = 7 };

static uint32_t item_bytes(uint32_t type)
{
    return type == DTN_TYPE_S64 ? sizeof(int64_t) : sizeof(int32_t);
}

static bool is_valid(const dtn_operator_call_t *call)
{
    if (call->input_count != 2 || call->output_count != 1 || call->param_count != sizeof(params_t) / sizeof(uint32_t)) {
        return false;
    }
    const params_t *p = (const params_t *)(const void *)call->params;
    const dtn_tensor_t *values = call->values;
    uint32_t type = values[0].type;
    bool compares = p->kind >= EQUAL && p->kind <= GREATER_OR_EQUAL;
    if ((type != DTN_TYPE_S32 && type != DTN_TYPE_S64) || values[1].type != type ||
        values[2].type != (compares ? (uint32_t)DTN_TYPE_BOOL : type) ||
        (!compares && (p->kind < ADD || p->kind > REMAINDER))) {
        return false;
    }
    uint32_t item = item_bytes(type);
    return dtn_dims_cover(p->dims, DTN_ITERATOR_RANK, values[2].bytes / (compares ? 1 : item)) &&
           dtn_strides_fit(p->dims, p->a_strides, DTN_ITERATOR_RANK, values[0].bytes / item) &&
           dtn_strides_fit(p->dims, p->b_strides, DTN_ITERATOR_RANK, values[1].bytes / item);
}

static int64_t element(const dtn_tensor_t *tensor, uint32_t at)
{
    return tensor->type == DTN_TYPE_S64 ? ((const int64_t *)tensor->data)[at] : ((const int32_t *)tensor->data)[at];
}

/* The remainder with the sign of the divisor, which is not 0. */
static int64_t remainder_of(int64_t a, int64_t b)
{
    int64_t rest = b == -1 ? 0 : a % b; /* the quotient of the least number by -1 does not exist */
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

/* All bits of the result: sums and products wrap around. */
static uint64_t compute(const params_t *p, int64_t a, int64_t b)
{
    uint64_t alpha = (uint64_t)(uint32_t)p->alpha_low | (uint64_t)(uint32_t)p->alpha_high << 32;
    switch (p->kind) {
    case ADD:
        return (uint64_t)a + (uint64_t)b * alpha;
    case MUL:
        return (uint64_t)a * (uint64_t)b;
    case REMAINDER:
        return (uint64_t)remainder_of(a, b);
    case EQUAL:
        return a == b;
    case DIFFERENT:
        return a != b;
    case GREATER:
        return a > b;
    default:
        return a >= b;
    }
}

static dtn_reason_t run(const dtn_operator_call_t *call)
{
    const params_t *p = (const params_t *)(const void *)call->params;
    const dtn_tensor_t *values = call->values;
    uint32_t item = p->kind >= EQUAL ? 1 : item_bytes(values[2].type);
    uint8_t *output = (uint8_t *)values[2].data;
    dtn_iterator_t a = {{0}, 0};
    dtn_iterator_t b = {{0}, 0};
    for (uint32_t left = values[2].bytes / item; left != 0; left--) {
        int64_t divisor = element(&values[1], b.offset);
        if (p->kind == REMAINDER && divisor == 0) {
            return DTN_REASON_OPERATOR;
        }
        /* The lowest bytes come first: all supported cores are little-endian. */
        uint64_t bits = compute(p, element(&values[0], a.offset), divisor);
        memcpy(output, &bits, item);
        output += item;
        dtn_iterator_next(&a, p->dims, p->a_strides);
        dtn_iterator_next(&b, p->dims, p->b_strides);
    }
    return DTN_OK;
}

int32_t dtn_op_integers(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    return run(call);
}
