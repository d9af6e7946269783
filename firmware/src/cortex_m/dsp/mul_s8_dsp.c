#include "../element_loops.h"
#include "requantize_dsp.h"

void dtn_cm_mul(const dtn_cm_elements_product_t *product, const int8_t *a, const int8_t *b, int8_t *out, size_t count)
{
    dtn_dsp_quantized_multiplier_t factor = dtn_dsp_quantized_multiplier(product->factor);
    int32_t a_zp = product->a_zp;
    int32_t twice_b_zp = 2 * product->b_zp;
    int32_t zero_point = product->limits.zero_point;
    int8_t *to = out;
    for (const int8_t *end = a + count; a != end;) {
        int32_t twice = (*a++ - a_zp) * (2 * *b++ - twice_b_zp);
        *to++ = (int8_t)dtn_dsp_s8(dtn_dsp_multiply_quantized(twice, factor) + zero_point);
    }
    dtn_dsp_limit(product->limits, out, count);
}
