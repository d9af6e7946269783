#include <string.h>

#include "integer_common.h"

typedef dtn_tfl_select_params_t params_t;

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 3, 1, params_t) || call->values[0].type != DTN_TYPE_BOOL ||
        !dtn_cm_are(&call->values[1], 3, call->values[1].type)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *values = call->values;
    uint32_t item = dtn_tfl_number_bytes(values[1].type);
    uint32_t count = item != 0 ? values[3].bytes / item : 0;
    return item != 0 && values[3].bytes % item == 0 &&
           dtn_index_is_inside(p->dims, p->condition_strides, count, values[0].bytes) &&
           dtn_index_is_inside(p->dims, p->a_strides, count, values[1].bytes / item) &&
           dtn_index_is_inside(p->dims, p->b_strides, count, values[2].bytes / item);
}

int32_t dtn_tfl_select(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *values = call->values;
    size_t item = dtn_tfl_number_bytes(values[1].type);
    uint8_t *out = (uint8_t *)values[3].data;
    int32_t index[DTN_INDEX_RANK] = {0};
    for (uint32_t left = values[3].bytes / (uint32_t)item; left != 0; left--, out += item) {
        bool first = ((const uint8_t *)values[0].data)[dtn_index_offset(index, p->condition_strides)] != 0;
        const uint8_t *from = (const uint8_t *)values[first ? 1 : 2].data;
        memcpy(out, from + dtn_index_offset(index, first ? p->a_strides : p->b_strides) * item, item);
        dtn_index_next(index, p->dims);
    }
    return DTN_OK;
}
