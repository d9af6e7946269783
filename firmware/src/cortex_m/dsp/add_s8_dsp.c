#include "../element_loops.h"
#include "requantize_dsp.h"

/* All numbers are doubled, so that products need no shift before they are rounded. */
void dtn_cm_add(const dtn_cm_sum_t *sum, const int8_t *halved, const int8_t *other, int8_t *out, size_t count)
{
    const int32_t one = 1 << 20;
    dtn_dsp_quantized_multiplier_t other_factor = dtn_dsp_quantized_multiplier(sum->other);
    dtn_dsp_quantized_multiplier_t factor = dtn_dsp_quantized_multiplier(sum->factor);
    int32_t power = 1 << (sum->other_left + 1);
    int32_t other_start = -sum->other_zp * power;
    int32_t halved_start = -sum->halved_zp * one;
    int32_t zero_point = sum->limits.zero_point;
    int8_t *to = out;
    for (const int8_t *end = halved + count; halved != end;) {
        int32_t y = dtn_dsp_multiply_quantized(*other++ * power + other_start, other_factor);
        int32_t both = *halved++ * one + halved_start + 2 * y;
        *to++ = (int8_t)dtn_dsp_s8(dtn_dsp_multiply_quantized(both, factor) + zero_point);
    }
    dtn_dsp_limit(sum->limits, out, count);
}
