#include "broadcast_index.h"
#include "cortex_m.h"

typedef dtn_cm_compare_params_t params_t;

enum { LESS, AT_MOST, EQUAL, OTHER, KINDS };

static bool is_valid(const dtn_operator_call_t *call)
{
    const dtn_tensor_t *values = call->values;
    if (!DTN_CM_IS_CALL(call, 2, 1, params_t) || !dtn_cm_are(values, 2, DTN_TYPE_S8) ||
        values[2].type != DTN_TYPE_BOOL) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    return p->kind >= 0 && p->kind < KINDS &&
           dtn_index_is_inside(p->dims, p->a_strides, values[2].bytes, values[0].bytes) &&
           dtn_index_is_inside(p->dims, p->b_strides, values[2].bytes, values[1].bytes);
}

static bool compare(int32_t kind, int8_t a, int8_t b)
{
    switch (kind) {
    case LESS:
        return a < b;
    case AT_MOST:
        return a <= b;
    case EQUAL:
        return a == b;
    default:
        return a != b;
    }
}

static void run(const dtn_operator_call_t *call)
{
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const int8_t *a = (const int8_t *)call->values[DTN_CM_COMPARE_A].data;
    const int8_t *b = (const int8_t *)call->values[DTN_CM_COMPARE_B].data;
    uint8_t *out = (uint8_t *)call->values[DTN_CM_COMPARE_OUTPUT].data;
    int32_t index[DTN_INDEX_RANK] = {0};
    for (uint32_t i = 0; i < call->values[DTN_CM_COMPARE_OUTPUT].bytes; i++) {
        int8_t left = a[dtn_index_offset(index, p->a_strides)];
        out[i] = compare(p->kind, left, b[dtn_index_offset(index, p->b_strides)]) ? 1 : 0;
        dtn_index_next(index, p->dims);
    }
}

int32_t dtn_cm_compare(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    run(call);
    return DTN_OK;
}
