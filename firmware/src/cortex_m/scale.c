#include "scale.h"

/* Without a branch per channel, so that compilers use vectors where a core has them. */
bool dtn_cm_are_factors(dtn_cm_scale_t *scale, size_t channels)
{
    const int32_t *multipliers = scale->multipliers;
    const int32_t *shifts = scale->shifts;
    int32_t largest = DTN_CM_MIN_SHIFT;
    uint32_t signs = 0; /* of numbers that must not be negative, and of those that overflow */
    for (size_t i = 0; i < channels; i++) {
        int32_t shift = shifts[i];
        signs |= (uint32_t)multipliers[i] | ((uint32_t)shift - (uint32_t)DTN_CM_MIN_SHIFT);
        largest = shift > largest ? shift : largest;
    }
    scale->largest_shift = largest;
    return signs >> 31 == 0 && largest <= DTN_CM_MAX_SHIFT;
}

int8_t dtn_cm_scaled_general(const dtn_cm_scale_t *scale, const dtn_cm_factor_t *factor, uint32_t sum)
{
    int32_t value = dtn_cm_requantize((int32_t)sum, factor->multiplier, -(int32_t)(factor->drop + 2U));
    return (int8_t)dtn_cm_clamp(dtn_cm_plus(value, scale->offset), scale->lo, scale->hi);
}
