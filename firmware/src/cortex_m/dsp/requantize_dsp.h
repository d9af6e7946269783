/**
 * @file
 * Products with quantized multipliers below 1, which round twice.
 */
#ifndef DTN_REQUANTIZE_H
#define DTN_REQUANTIZE_H

#include "../element_loops.h"
#include "instructions_dsp.h"

/** A factor, and half of its shift's divisor. */
typedef struct {
    int32_t multiplier;
    int32_t half;
    int32_t shift;
} dtn_dsp_quantized_multiplier_t;

static inline dtn_dsp_quantized_multiplier_t dtn_dsp_quantized_multiplier(dtn_cm_quantized_multiplier_t factor)
{
    return (dtn_dsp_quantized_multiplier_t){factor.multiplier, 1 << (factor.shift - 1), factor.shift};
}

/** twice / 2 times the factor. Rounding the shift ties away from zero is rounding ties up, with 1 less below zero. */
static inline int32_t dtn_dsp_multiply_quantized(int32_t twice, dtn_dsp_quantized_multiplier_t factor)
{
    int32_t value = dtn_dsp_top(twice, factor.multiplier);
    return (value + (value >> 31) + factor.half) >> factor.shift;
}

/** Holds int8 values within limits that are not the type's. */
static inline void dtn_dsp_limit(dtn_cm_limits_t limits, int8_t *values, size_t count)
{
    if (limits.lo == INT8_MIN && limits.hi == INT8_MAX) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        int32_t value = values[i];
        values[i] = (int8_t)(value < limits.lo ? limits.lo : value > limits.hi ? limits.hi : value);
    }
}

#endif /* DTN_REQUANTIZE_H */
