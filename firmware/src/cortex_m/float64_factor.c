#include "float64_factor.h"

bool dtn_cm_are_float64_factors(const int32_t *factors, int32_t count)
{
    for (; count > 0; count--, factors += DTN_CM_FACTOR_WORDS) {
        int32_t high = factors[DTN_CM_FACTOR_HIGH], shift = factors[DTN_CM_FACTOR_SHIFT];
        if (high < 0 || high >= 1 << 21 || shift < 1 || shift > 127) {
            return false;
        }
    }
    return true;
}

int32_t dtn_cm_times_float64(int64_t sum, const int32_t *factor)
{
    /* The product without its sign, as two words of 64 bits. */
    uint32_t upper = (uint32_t)factor[DTN_CM_FACTOR_HIGH], lower = (uint32_t)factor[DTN_CM_FACTOR_LOW];
    uint64_t a = sum < 0 ? 0U - (uint64_t)sum : (uint64_t)sum;
    uint64_t low = (uint64_t)(uint32_t)a * lower;
    uint64_t middle = (low >> 32) + (a >> 32) * lower;
    uint64_t other = (uint64_t)(uint32_t)a * upper + (uint32_t)middle;
    uint64_t high = (a >> 32) * upper + (middle >> 32) + (other >> 32);
    low = other << 32 | (uint32_t)low;
    /* With one bit behind the point. */
    int32_t shift = factor[DTN_CM_FACTOR_SHIFT] - 1;
    uint64_t twice = shift >= 64 ? high >> (shift - 64) : shift == 0 ? low : low >> shift | high << (64 - shift);
    bool is_large = shift < 64 && high >> shift != 0;
    uint64_t nearest = is_large || twice >= UINT32_MAX ? INT32_MAX : (twice + 1) >> 1;
    return sum < 0 ? -(int32_t)nearest : (int32_t)nearest;
}
