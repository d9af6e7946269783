/**
 * @file
 * Products of sums and float64 factors one by one, of which the upper 32 bits of a factor mostly decide.
 */
#pragma once

#include "float64_factor.h"
#include "scale.h"

typedef struct {
    const int32_t *words;
    uint32_t upper;
    uint32_t half;
    uint32_t drop; /* bits behind the point in the upper word of a product with `upper`; 0 where that cannot decide */
} dtn_cm_upper_factor_t;

static inline dtn_cm_upper_factor_t dtn_cm_upper_factor(const int32_t *words)
{
    uint32_t drop = (uint32_t)words[DTN_CM_FACTOR_SHIFT] - DTN_CM_FACTOR_BITS;
    bool is_within = drop >= 1 && drop <= 31;
    return (dtn_cm_upper_factor_t){
        .words = words,
        .upper = (uint32_t)words[DTN_CM_FACTOR_HIGH] << 11 | (uint32_t)words[DTN_CM_FACTOR_LOW] >> 21,
        .half = is_within ? UINT32_C(1) << (drop - 1) : 0,
        .drop = is_within ? drop : 0,
    };
}

static inline int32_t dtn_cm_times_upper_factor(int32_t sum, const dtn_cm_upper_factor_t *factor)
{
    uint32_t a = sum < 0 ? 0U - (uint32_t)sum : (uint32_t)sum;
    uint32_t rounded = (uint32_t)((uint64_t)a * factor->upper >> 32) + factor->half;
    int32_t nearest = (int32_t)(rounded >> factor->drop);
    if (factor->drop == 0 || (int32_t)((rounded + 1) >> factor->drop) != nearest) {
        return dtn_cm_times_float64(sum, factor->words);
    }
    return sum < 0 ? -nearest : nearest;
}

static inline void dtn_cm_round_sums_one_by_one(const dtn_cm_rounding_t *rounding, const int32_t *sums, size_t count,
                                                int8_t *output)
{
    /* A copy, which no store to the output can change. */
    const dtn_cm_rounding_t r = *rounding;
    dtn_cm_upper_factor_t factor = dtn_cm_upper_factor(r.factors);
    for (size_t j = 0; j < count; j++) {
        if (r.step != 0) {
            factor = dtn_cm_upper_factor(r.factors + j * r.step);
        }
        int32_t value = dtn_cm_plus(dtn_cm_times_upper_factor(sums[j], &factor), r.offset);
        output[j] = (int8_t)dtn_cm_clamp(value, r.lo, r.hi);
    }
}
