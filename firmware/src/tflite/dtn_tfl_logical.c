#include "integer_common.h"

typedef dtn_tfl_logical_params_t params_t;

enum { AND = 0, OR = 1, NOT = 2 };

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 2, 1, params_t) || !dtn_cm_are(call->values, 3, DTN_TYPE_BOOL)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    return p->kind >= AND && p->kind <= NOT && dtn_tfl_are_pairs(call->values, p->dims, p->a_strides, p->b_strides);
}

static bool result(int32_t kind, bool a, bool b)
{
    return kind == AND ? a && b : kind == OR ? a || b : !b;
}

int32_t dtn_tfl_logical(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const uint8_t *a = (const uint8_t *)call->values[0].data, *b = (const uint8_t *)call->values[1].data;
    uint8_t *out = (uint8_t *)call->values[2].data;
    dtn_tfl_pairs_t pairs = dtn_tfl_pairs(call->values, p->dims, p->a_strides, p->b_strides);
    for (; pairs.left != 0; dtn_tfl_pairs_next(&pairs)) {
        for (uint32_t i = 0; i < pairs.length; i++) {
            *out++ = result(p->kind, a[pairs.a + i * pairs.a_step] != 0, b[pairs.b + i * pairs.b_step] != 0);
        }
    }
    return DTN_OK;
}
