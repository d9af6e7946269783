#include "float32_common.h"

typedef dtn_tfl_cumsum_params_t params_t;

static int32_t item_of(uint32_t type)
{
    return type == DTN_TYPE_S64 ? 8 : type == DTN_TYPE_S32 || type == DTN_TYPE_F32 ? 4 : 0;
}

static bool is_valid(const dtn_operator_call_t *call)
{
    uint32_t type = call->values[0].type;
    if (!DTN_CM_IS_CALL(call, 1, 1, params_t) || !dtn_cm_are(call->values, 2, type)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    return (p->exclusive == 0 || p->exclusive == 1) && (p->reverse == 0 || p->reverse == 1) &&
           dtn_cm_has_size(&call->values[0], DTN_CM_LIST(item_of(type), p->outer, p->length, p->inner)) &&
           dtn_cm_has_size(&call->values[1], DTN_CM_LIST(item_of(type), p->outer, p->length, p->inner));
}

/* The sums of one line of a type, whose elements are `inner` apart; whole numbers keep their low bits. */
#define DTN_TFL_SUMS(name, type, sum_type)                                                                             \
    static void name(const params_t *p, const type *in, type *out)                                                     \
    {                                                                                                                  \
        sum_type sum = 0;                                                                                              \
        for (int32_t i = 0; i < p->length; i++) {                                                                      \
            size_t at = (size_t)(p->reverse == 1 ? p->length - 1 - i : i) * (size_t)p->inner;                          \
            sum_type before = sum;                                                                                     \
            sum += (sum_type)in[at];                                                                                   \
            out[at] = (type)(p->exclusive == 1 ? before : sum);                                                        \
        }                                                                                                              \
    }

DTN_TFL_SUMS(sums_f32, float, float)
DTN_TFL_SUMS(sums_s32, int32_t, uint32_t)
DTN_TFL_SUMS(sums_s64, int64_t, uint64_t)

int32_t dtn_tfl_cumsum(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *in = &call->values[0], *out = &call->values[1];
    for (int32_t line = 0; line < p->outer * p->inner; line++) {
        size_t first = (size_t)(line / p->inner) * (size_t)p->length * (size_t)p->inner + (size_t)(line % p->inner);
        if (in->type == DTN_TYPE_F32) {
            sums_f32(p, (const float *)in->data + first, (float *)out->data + first);
        } else if (in->type == DTN_TYPE_S32) {
            sums_s32(p, (const int32_t *)in->data + first, (int32_t *)out->data + first);
        } else {
            sums_s64(p, (const int64_t *)in->data + first, (int64_t *)out->data + first);
        }
    }
    return DTN_OK;
}
