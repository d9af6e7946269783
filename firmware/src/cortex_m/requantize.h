/**
 * @file
 * The conversion of values to another type and scale.
 */
#pragma once

#include "int16.h"

/** The record of both. */
typedef dtn_cm_requantize_s16_params_t dtn_cm_requantize_t;

/** True for a call whose numbers and sizes fit each other; the types are checked already. */
static inline bool dtn_cm_is_requantize(const dtn_operator_call_t *call)
{
    const dtn_cm_requantize_t *p = DTN_CM_PARAMS(call, dtn_cm_requantize_t);
    int32_t from = call->values[0].type == DTN_TYPE_S16 ? 2 : 1;
    int32_t to = call->values[1].type == DTN_TYPE_S16 ? 2 : 1;
    return dtn_cm_has_size(&call->values[0], DTN_CM_LIST(from, p->elements)) &&
           dtn_cm_has_size(&call->values[1], DTN_CM_LIST(to, p->elements)) && p->mult >= 0 && p->shift >= 1 &&
           p->shift <= 62 && dtn_cm_is_s8(p->in_zp) && dtn_cm_is_s8(p->out_zp) && (from == 1 || p->in_zp == 0) &&
           (to == 1 || p->out_zp == 0);
}

/** A stored value as one of the other type, before that is saturated. */
static inline int64_t dtn_cm_requantized(const dtn_cm_requantize_t *p, int32_t value)
{
    return p->out_zp + dtn_rne_shift((int64_t)(value - p->in_zp) * p->mult, p->shift);
}
