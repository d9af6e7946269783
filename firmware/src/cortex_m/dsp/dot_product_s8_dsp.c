#include "../dot_product_s8.h"
#include "instructions_dsp.h"

/* The sum with four products: of bytes 0 and 2, and of 1 and 3. */
static uint32_t add_four(uint32_t even, uint32_t odd, const int8_t *weights, uint32_t sum)
{
    uint32_t bytes = dtn_dsp_load(weights);
    return dtn_dsp_both(odd, dtn_dsp_odd(bytes), dtn_dsp_both(even, dtn_dsp_even(bytes), sum));
}

void dtn_cm_add_dots_s8(const int8_t *x, int32_t offset, const int8_t *const rows[DTN_CM_ROWS], size_t count,
                        uint32_t sums[DTN_CM_ROWS])
{
    const int8_t *wa = rows[0];
    const int8_t *wb = rows[1];
    const int8_t *wc = rows[2];
    const int8_t *wd = rows[3];
    uint32_t offsets = ((uint32_t)offset & 0xFFFFU) | (uint32_t)offset << 16;
    uint32_t a = 0;
    uint32_t b = 0;
    uint32_t c = 0;
    uint32_t d = 0;
    size_t k = 0;
    for (; k + 4 <= count; k += 4) {
        uint32_t bytes = dtn_dsp_load(x + k);
        uint32_t even = dtn_dsp_add_even(offsets, bytes);
        uint32_t odd = dtn_dsp_add_odd(offsets, bytes);
        a = add_four(even, odd, wa + k, a);
        b = add_four(even, odd, wb + k, b);
        c = add_four(even, odd, wc + k, c);
        d = add_four(even, odd, wd + k, d);
    }
    for (; k < count; k++) {
        int32_t input = x[k] + offset;
        a += (uint32_t)(input * wa[k]);
        b += (uint32_t)(input * wb[k]);
        c += (uint32_t)(input * wc[k]);
        d += (uint32_t)(input * wd[k]);
    }
    sums[0] += a;
    sums[1] += b;
    sums[2] += c;
    sums[3] += d;
}
