#include "scale.h"

bool dtn_cm_are_factors(const int32_t *multipliers, const int32_t *shifts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (multipliers[i] < 0 || !dtn_cm_is_shift(shifts[i])) {
            return false;
        }
    }
    return true;
}

int8_t dtn_cm_scaled_rarely(const dtn_cm_scale_t *scale, const dtn_cm_factor_t *factor, uint32_t sum)
{
    int32_t value = dtn_cm_requantize((int32_t)sum, factor->multiplier, -(int32_t)(factor->drop + 2U));
    return (int8_t)dtn_cm_clamp(dtn_cm_plus(value, scale->offset), scale->lo, scale->hi);
}
