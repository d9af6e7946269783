#include <string.h>

#include "cortex_m.h"

typedef dtn_cm_gather_params_t params_t;

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 2, 1, params_t)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *table = &call->values[0], *indices = &call->values[1], *out = &call->values[2];
    int32_t index_bytes = indices->type == DTN_TYPE_S64 ? 8 : 4;
    return (indices->type == DTN_TYPE_S64 || indices->type == DTN_TYPE_S32) && out->type == table->type &&
           dtn_cm_has_size(table, DTN_CM_LIST(p->outer, p->rows, p->row_bytes)) &&
           dtn_cm_has_size(indices, DTN_CM_LIST(p->count, index_bytes)) &&
           dtn_cm_has_size(out, DTN_CM_LIST(p->outer, p->count, p->row_bytes));
}

static int64_t index_at(const dtn_tensor_t *indices, size_t at)
{
    return indices->type == DTN_TYPE_S64 ? ((const int64_t *)indices->data)[at] : ((const int32_t *)indices->data)[at];
}

int32_t dtn_cm_gather(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const uint8_t *table = (const uint8_t *)call->values[0].data;
    uint8_t *out = (uint8_t *)call->values[2].data;
    size_t size = (size_t)p->row_bytes;
    for (int32_t o = 0; o < p->outer; o++) {
        for (int32_t i = 0; i < p->count; i++) {
            int64_t row = index_at(&call->values[1], (size_t)i);
            if (row < 0 || row >= p->rows) {
                return DTN_REASON_OPERATOR;
            }
            memcpy(out, table + (size_t)row * size, size);
            out += size;
        }
        table += (size_t)p->rows * size;
    }
    return DTN_OK;
}
