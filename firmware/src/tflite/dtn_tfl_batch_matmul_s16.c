#include "integer_common.h"

typedef dtn_tfl_batch_matmul_s16_params_t params_t;

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 2, 1, params_t)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *a = &call->values[0], *b = &call->values[1], *out = &call->values[2];
    return a->type == DTN_TYPE_S16 && dtn_tfl_is_activation(b->type) && out->type == DTN_TYPE_S16 &&
           dtn_tfl_is_factor(p->multiplier, p->shift) && p->shift <= 14 &&
           dtn_cm_has_size(a, DTN_CM_LIST(2, p->batches, p->rows, p->depth)) &&
           dtn_cm_has_size(b, DTN_CM_LIST((int32_t)dtn_tfl_item(b->type), p->batches, p->columns, p->depth)) &&
           dtn_cm_has_size(out, DTN_CM_LIST(2, p->batches, p->rows, p->columns));
}

static int16_t element(const params_t *p, const int16_t *a, const dtn_tensor_t *b, size_t first)
{
    int64_t sum = 0;
    for (size_t k = 0; k < (size_t)p->depth; k++) {
        sum += a[k] * dtn_tfl_at(b, first + k);
    }
    int64_t value = dtn_tfl_wide_scaled(sum, p->multiplier, p->shift);
    return (int16_t)(value < INT16_MIN ? INT16_MIN : value > INT16_MAX ? INT16_MAX : value);
}

int32_t dtn_tfl_batch_matmul_s16(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const int16_t *a = (const int16_t *)call->values[0].data;
    int16_t *out = (int16_t *)call->values[2].data;
    size_t depth = (size_t)p->depth;
    for (size_t i = 0; i < (size_t)p->batches * (size_t)p->rows; i++, a += depth) {
        size_t first = i / (size_t)p->rows * (size_t)p->columns * depth;
        for (size_t j = 0; j < (size_t)p->columns; j++) {
            *out++ = element(p, a, &call->values[1], first + j * depth);
        }
    }
    return DTN_OK;
}
