#include "../element_loops.h"
#include "requantize_portable.h"

void dtn_cm_mul(const dtn_cm_elements_product_t *product, const int8_t *a, const int8_t *b, int8_t *out, size_t count)
{
    dtn_cm_elements_product_t p = *product;
    for (size_t i = 0; i < count; i++) {
        int32_t twice = (a[i] - p.a_zp) * (b[i] - p.b_zp) * 2;
        out[i] = dtn_cm_limited(dtn_cm_multiply_quantized(twice, p.factor), p.limits);
    }
}
