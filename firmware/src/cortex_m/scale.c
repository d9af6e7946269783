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

int32_t dtn_cm_times_any(uint32_t sum, int32_t multiplier, uint32_t drop)
{
    return dtn_cm_requantize((int32_t)sum, multiplier, -(int32_t)(drop + 2U));
}
