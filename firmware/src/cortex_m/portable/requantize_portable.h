/**
 * @file
 * Products with quantized multipliers below 1, which round twice.
 */
#ifndef DTN_REQUANTIZE_H
#define DTN_REQUANTIZE_H

#include "../element_loops.h"

/**
 * twice / 2 times the factor, |twice| < 2^31. Rounding the shift ties away from zero is rounding ties up, with 1 less
 * below zero; all compilers that we know shift the sign in.
 */
static inline int32_t dtn_cm_multiply_quantized(int32_t twice, dtn_cm_quantized_multiplier_t factor)
{
    int32_t value = (int32_t)(((int64_t)twice * factor.multiplier + (INT64_C(1) << 31)) >> 32);
    return (value + (value >> 31) + (1 << (factor.shift - 1))) >> factor.shift;
}

/** The output for a value. */
static inline int8_t dtn_cm_limited(int32_t value, dtn_cm_limits_t limits)
{
    value += limits.zero_point;
    return (int8_t)(value < limits.lo ? limits.lo : value > limits.hi ? limits.hi : value);
}

#endif /* DTN_REQUANTIZE_H */
