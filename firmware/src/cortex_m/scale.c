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

int32_t dtn_cm_requantize_any(int32_t sum, int32_t multiplier, int32_t shift)
{
    return dtn_cm_requantize(sum, multiplier, shift);
}
