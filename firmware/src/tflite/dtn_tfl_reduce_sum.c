#include "float32_common.h"
#include "reductions.h"

typedef dtn_tfl_reduce_sum_params_t params_t;

static bool is_valid(const dtn_operator_call_t *call)
{
    uint32_t type = call->values[0].type;
    if (!DTN_CM_IS_CALL(call, 1, 1, params_t) || !dtn_tfl_is_activation(type) || !dtn_cm_are(call->values, 2, type)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    uint32_t elements = dtn_tfl_elements(&call->values[0]);
    return dtn_index_is_inside(p->kept, p->kept_strides, dtn_tfl_elements(&call->values[1]), elements) &&
           dtn_tfl_is_reduction(p->kept, p->kept_strides, p->reduced, p->reduced_strides, elements) &&
           dtn_tfl_holds(type, p->in_zp) && dtn_tfl_holds(type, p->out_zp) &&
           (p->real == 1 ? p->in_zp == 0 : p->real == 0 && dtn_tfl_is_factor(p->multiplier, p->shift));
}

/* Sums that do not fit 32 bits keep their low ones. */
static int32_t sum_from(const params_t *p, const dtn_tensor_t *in, uint32_t first, uint32_t rows)
{
    enum { LAST = DTN_INDEX_RANK - 1 };
    int32_t index[DTN_INDEX_RANK] = {0};
    uint32_t sum = 0;
    for (uint32_t row = 0; row < rows; row++) {
        uint32_t at = first + dtn_index_offset(index, p->reduced_strides);
        for (int32_t i = 0; i < p->reduced[LAST]; i++, at += (uint32_t)p->reduced_strides[LAST]) {
            sum += (uint32_t)(dtn_tfl_at(in, at) - p->in_zp);
        }
        index[LAST] = p->reduced[LAST] - 1;
        dtn_index_next(index, p->reduced);
    }
    return (int32_t)sum;
}

static int32_t result(const params_t *p, int32_t sum, dtn_tfl_limits_t limits)
{
    if (p->real == 0) {
        return dtn_tfl_scaled(sum, p->multiplier, p->shift, p->out_zp, limits);
    }
    float product = (float)sum * dtn_tfl_real(p->multiplier);
    int32_t whole = dtn_tfl_nearest(product + dtn_tfl_real(p->shift));
    return dtn_cm_clamp(whole + p->out_zp, limits.min, limits.max);
}

int32_t dtn_tfl_reduce_sum(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *out = &call->values[1];
    const dtn_tfl_limits_t limits = dtn_tfl_limits(out->type);
    uint32_t rows = dtn_tfl_reduced_rows(p->reduced);
    int32_t index[DTN_INDEX_RANK] = {0};
    for (uint32_t i = 0; i < dtn_tfl_elements(out); i++) {
        int32_t sum = sum_from(p, &call->values[0], dtn_index_offset(index, p->kept_strides), rows);
        dtn_tfl_put(out, i, result(p, sum, limits));
        dtn_index_next(index, p->kept);
    }
    return DTN_OK;
}
