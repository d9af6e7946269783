#include "broadcast_index.h"
#include "cortex_m.h"

typedef dtn_cm_where_params_t params_t;

static bool is_valid(const dtn_operator_call_t *call)
{
    const dtn_tensor_t *values = call->values;
    if (!DTN_CM_IS_CALL(call, 3, 1, params_t) || values[0].type != DTN_TYPE_BOOL ||
        !dtn_cm_are(&values[1], 3, DTN_TYPE_S8)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    return dtn_index_is_inside(p->dims, p->condition_strides, values[3].bytes, values[0].bytes) &&
           dtn_index_is_inside(p->dims, p->a_strides, values[3].bytes, values[1].bytes) &&
           dtn_index_is_inside(p->dims, p->b_strides, values[3].bytes, values[2].bytes);
}

static void run(const dtn_operator_call_t *call)
{
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const uint8_t *condition = (const uint8_t *)call->values[DTN_CM_WHERE_CONDITION].data;
    const int8_t *a = (const int8_t *)call->values[DTN_CM_WHERE_A].data;
    const int8_t *b = (const int8_t *)call->values[DTN_CM_WHERE_B].data;
    int8_t *out = (int8_t *)call->values[DTN_CM_WHERE_OUTPUT].data;
    int32_t index[DTN_INDEX_RANK] = {0};
    for (uint32_t i = 0; i < call->values[DTN_CM_WHERE_OUTPUT].bytes; i++) {
        bool is_first = condition[dtn_index_offset(index, p->condition_strides)] != 0;
        out[i] = is_first ? a[dtn_index_offset(index, p->a_strides)] : b[dtn_index_offset(index, p->b_strides)];
        dtn_index_next(index, p->dims);
    }
}

int32_t dtn_cm_where(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    run(call);
    return DTN_OK;
}
