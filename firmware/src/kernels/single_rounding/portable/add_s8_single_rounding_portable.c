#include "../add_s8_single_rounding.h"

void dtn_sr_add(const dtn_sr_sum_t *sum, const int8_t *a, const int8_t *b, int8_t *out, size_t count)
{
    const dtn_sr_sum_t s = *sum; /* a copy, which no store to the output can change */
    const int32_t below_half = (1 << (s.shift - 1)) - 1;
    for (size_t i = 0; i < count; i++) {
        int32_t x = a[i];
        int32_t y = b[i];
        int32_t lower = s.start_lower + x * s.a_lower + y * s.b_lower;
        int32_t upper = s.start_upper + x * s.a_upper + y * s.b_upper + (lower >> 16);
        /* Ties round to even: a rest below the upper part makes a half more than a half. */
        int32_t up = (upper >> s.shift & 1) | ((lower & 0xFFFF) != 0 ? 1 : 0);
        int32_t value = ((upper + below_half + up) >> s.shift) + s.zero_point;
        value = value < s.lo ? s.lo : value;
        out[i] = (int8_t)(value > s.hi ? s.hi : value);
    }
}
