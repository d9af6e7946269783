/**
 * @file
 * Shared checks of the CPU operators.
 */
#pragma once

#include <stdbool.h>

#include "deuteron/operators.h"

/** The range of a quantized type; `bytes` of an element is 0 for other types. */
typedef struct {
    int32_t min;
    int32_t max;
    uint32_t bytes;
} dtn_range_t;

static inline dtn_range_t dtn_operator_range(uint32_t type)
{
    switch (type) {
    case DTN_TYPE_U8:
        return (dtn_range_t){0, UINT8_MAX, 1};
    case DTN_TYPE_S8:
        return (dtn_range_t){INT8_MIN, INT8_MAX, 1};
    case DTN_TYPE_S16:
        return (dtn_range_t){INT16_MIN, INT16_MAX, 2};
    default:
        return (dtn_range_t){0, 0, 0};
    }
}

/** True for one input, one output and this number of parameters. */
static inline bool dtn_operator_is_unary(const dtn_operator_call_t *call, uint32_t params)
{
    return call->input_count == 1 && call->output_count == 1 && call->param_count == params;
}

/** The nearest integer for |x| <= 2^20, ties to even. Not rintf: a device need not link a mathematics library. */
static inline int32_t dtn_operator_round(float x)
{
    int32_t whole = (int32_t)x;
    float rest = x - (float)whole;
    bool odd = whole % 2 != 0;
    if (rest > 0.5F || (rest == 0.5F && odd)) {
        return whole + 1;
    }
    if (rest < -0.5F || (rest == -0.5F && odd)) {
        return whole - 1;
    }
    return whole;
}
