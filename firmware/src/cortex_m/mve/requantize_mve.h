/**
 * @file
 * Products with quantized multipliers below 1, which round twice.
 */
#ifndef DTN_REQUANTIZE_H
#define DTN_REQUANTIZE_H

#include <arm_mve.h>

#include "../element_loops.h"

/** Lanes of 32 bits. */
enum { DTN_CM_LANES = 4 };

/** Values times the factor. Rounding the shift ties away from zero is rounding ties up, with 1 less below zero. */
static inline int32x4_t dtn_cm_multiply_quantized(int32x4_t values, dtn_cm_quantized_multiplier_t factor)
{
    int32x4_t high = vqrdmulhq_n_s32(values, factor.multiplier);
    return vrshlq_n_s32(vaddq_s32(high, vshrq_n_s32(high, 31)), -factor.shift);
}

/** Limits in all lanes. */
typedef struct {
    int32x4_t lo;
    int32x4_t hi;
} dtn_cm_lane_limits_t;

static inline dtn_cm_lane_limits_t dtn_cm_lane_limits(dtn_cm_limits_t limits)
{
    return (dtn_cm_lane_limits_t){vdupq_n_s32(limits.lo), vdupq_n_s32(limits.hi)};
}

/** The outputs for values. */
static inline int32x4_t dtn_cm_limited(int32x4_t values, int32_t zero_point, dtn_cm_lane_limits_t limits)
{
    return vminq_s32(vmaxq_s32(vaddq_n_s32(values, zero_point), limits.lo), limits.hi);
}

#endif /* DTN_REQUANTIZE_H */
