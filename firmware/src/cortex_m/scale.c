#include "scale.h"

bool dtn_cm_are_factors(dtn_cm_scale_t *scale, size_t channels)
{
    int32_t largest = DTN_CM_MIN_SHIFT;
    for (size_t i = 0; i < channels; i++) {
        int32_t shift = scale->shifts[i];
        if (!dtn_cm_is_factor(scale->multipliers[i], shift)) {
            return false;
        }
        largest = shift > largest ? shift : largest;
    }
    scale->largest_shift = largest;
    return true;
}

int8_t dtn_cm_scaled_rarely(const dtn_cm_scale_t *scale, const dtn_cm_factor_t *factor, uint32_t sum)
{
    int32_t value = dtn_cm_requantize((int32_t)sum, factor->multiplier, -(int32_t)(factor->drop + 2U));
    return (int8_t)dtn_cm_clamp(dtn_cm_plus(value, scale->offset), scale->lo, scale->hi);
}
