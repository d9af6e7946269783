/**
 * @file
 * `dtn_cm_scaled` (scale.h) for the factors of nearly all layers, with an instruction that saturates: the same bytes.
 */
#pragma once

#include "../scale.h"
#include "instructions_dsp.h"

/** True for limits that are those of int8. */
static inline bool dtn_dsp_has_plain_limits(const dtn_cm_scale_t *scale)
{
    return scale->lo == INT8_MIN && scale->hi == INT8_MAX;
}

/** True when `dtn_dsp_scaled` may be used: such limits, and no factor drops more than DTN_CM_MOST_DROP bits. */
static inline bool dtn_dsp_is_plain(const dtn_cm_scale_t *scale, size_t channels)
{
    bool is_plain = dtn_dsp_has_plain_limits(scale);
    for (size_t i = 0; is_plain && i < (scale->step == 0 ? 1 : channels); i++) {
        is_plain = dtn_cm_factor(scale, i).drop <= DTN_CM_MOST_DROP;
    }
    return is_plain;
}

/** The number added to all outputs of a layer: the offset, doubled, and 1. */
static inline int32_t dtn_dsp_addend(const dtn_cm_scale_t *scale)
{
    return 1 + 2 * scale->offset;
}

/** The output for a sum. */
static inline int8_t dtn_dsp_scaled(int32_t addend, dtn_cm_factor_t factor, uint32_t sum)
{
    int64_t product = (int64_t)(int32_t)sum * factor.multiplier + dtn_cm_half(sum);
    return (int8_t)dtn_dsp_half_s8(((int32_t)(product >> 32) >> factor.drop) + addend);
}
