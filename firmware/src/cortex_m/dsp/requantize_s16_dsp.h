/**
 * @file
 * Converts 32-bit sums to int16 outputs: inner_loops_s16.h has the arithmetic.
 *
 * Half of 2^t is added to the value, which rounds ties up. If no bit behind the quotient is set then, there was a tie,
 * and the quotient's last bit is cleared.
 */
#pragma once

#include "../inner_loops_s16.h"
#include "instructions_dsp.h"

/** The factor of a channel. */
typedef struct {
    uint32_t low; /**< of bias * 2^(t - 10) and half of 2^t */
    uint32_t high;
    int32_t multiplier;
    int32_t drop; /**< t - 32 */
} dtn_dsp_factor_s16_t;

static inline dtn_dsp_factor_s16_t dtn_dsp_factor_s16(const dtn_cm_scale_s16_t *scale, size_t channel)
{
    const int32_t shift = scale->shifts[channel];
    const int32_t more = 40 - shift < 9 ? 40 - shift : 9;
    const int32_t total = shift + more;
    const int64_t bias = (int64_t)scale->bias[channel] * (INT32_C(1) << (total - DTN_CM_S16_BIAS_BITS));
    const uint64_t start = (uint64_t)(bias + (INT64_C(1) << (total - 1)));
    return (dtn_dsp_factor_s16_t){(uint32_t)start, (uint32_t)(start >> 32),
                                  scale->multipliers[channel] * (INT32_C(1) << more), total - 32};
}

/** True for outputs from 0 to the largest number of int16: one instruction limits them. */
static inline bool dtn_dsp_is_relu_s16(const dtn_cm_scale_s16_t *scale)
{
    return scale->lo == 0 && scale->hi == INT16_MAX;
}

/** The output for a sum. */
static inline int16_t dtn_dsp_scaled_s16(const dtn_dsp_factor_s16_t *factor, const dtn_cm_scale_s16_t *scale,
                                         bool is_relu, uint32_t sum)
{
    uint32_t low = factor->low;
    uint32_t high = factor->high;
    dtn_dsp_add_long((int32_t)sum, factor->multiplier, &low, &high);
    int32_t quotient = (int32_t)high >> factor->drop;
    if (__builtin_expect(low == 0, 0)) {
        quotient &= high << (32 - factor->drop) == 0 ? ~1 : ~0;
    }
    if (is_relu) {
        return (int16_t)dtn_dsp_u15(quotient);
    }
    return (int16_t)(quotient < scale->lo ? scale->lo : quotient > scale->hi ? scale->hi : quotient);
}
