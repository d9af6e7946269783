#include "float32_common.h"

typedef dtn_tfl_batch_matmul_f32_params_t params_t;

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 2, 1, params_t) || !dtn_cm_are(call->values, 3, DTN_TYPE_F32)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    return dtn_cm_has_size(&call->values[0], DTN_CM_LIST(4, p->batches, p->rows, p->depth)) &&
           dtn_cm_has_size(&call->values[1], DTN_CM_LIST(4, p->batches, p->columns, p->depth)) &&
           dtn_cm_has_size(&call->values[2], DTN_CM_LIST(4, p->batches, p->rows, p->columns));
}

int32_t dtn_tfl_batch_matmul_f32(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const float *a = (const float *)call->values[0].data;
    float *out = (float *)call->values[2].data;
    size_t depth = (size_t)p->depth;
    for (size_t i = 0; i < (size_t)p->batches * (size_t)p->rows; i++, a += depth) {
        const float *b = (const float *)call->values[1].data + i / (size_t)p->rows * (size_t)p->columns * depth;
        for (size_t j = 0; j < (size_t)p->columns; j++, b += depth) {
            float sum = 0.0F;
            for (size_t k = 0; k < depth; k++) {
                float product = a[k] * b[k];
                sum += product;
            }
            *out++ = sum;
        }
    }
    return DTN_OK;
}
