#include "../element_loops.h"
#include "requantize_portable.h"

/* All numbers are twice what they stand for, so that products need no shift before they are rounded. */
void dtn_cm_add(const dtn_cm_sum_t *sum, const int8_t *halved, const int8_t *other, int8_t *out, size_t count)
{
    dtn_cm_sum_t s = *sum;
    uint32_t left = (uint32_t)s.other_left + 1U;
    int32_t other_start = -s.other_zp * (1 << left);
    int32_t halved_start = -s.halved_zp * (1 << 20);
    for (size_t i = 0; i < count; i++) {
        int32_t y = dtn_cm_multiply_quantized(other[i] * (1 << left) + other_start, s.other);
        int32_t value = dtn_cm_multiply_quantized(halved[i] * (1 << 20) + halved_start + 2 * y, s.factor);
        out[i] = dtn_cm_limited(value, s.limits);
    }
}
