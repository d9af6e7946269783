#include "../int16.h"

#include "instructions_dsp.h"

/* The sum of this many products fits 32 bits. */
enum { PRODUCTS = 256 };

/* Four inputs as elements 0 and 2, and 1 and 3, as weights are unpacked. */
typedef struct {
    uint32_t even;
    uint32_t odd;
} four_t;

static four_t four_from(const int16_t *inputs)
{
    uint32_t first = dtn_dsp_load(inputs);
    uint32_t second = dtn_dsp_load(inputs + 2);
    return (four_t){dtn_dsp_pack_lower(first, second), dtn_dsp_pack_upper(first, second)};
}

static uint32_t add_four(four_t four, const int8_t *weights, uint32_t sum)
{
    uint32_t bytes = dtn_dsp_load(weights);
    return dtn_dsp_both(four.odd, dtn_dsp_odd(bytes), dtn_dsp_both(four.even, dtn_dsp_even(bytes), sum));
}

static void add_few(const int16_t *inputs, const int8_t *const rows[DTN_CM_ROWS], size_t first, size_t end,
                    int64_t sums[DTN_CM_ROWS])
{
    const int8_t *wa = rows[0];
    const int8_t *wb = rows[1];
    const int8_t *wc = rows[2];
    const int8_t *wd = rows[3];
    uint32_t a = 0;
    uint32_t b = 0;
    uint32_t c = 0;
    uint32_t d = 0;
    size_t k = first;
    for (; k + 4 <= end; k += 4) {
        four_t four = four_from(inputs + k);
        a = add_four(four, wa + k, a);
        b = add_four(four, wb + k, b);
        c = add_four(four, wc + k, c);
        d = add_four(four, wd + k, d);
    }
    for (; k < end; k++) {
        a += (uint32_t)(inputs[k] * wa[k]);
        b += (uint32_t)(inputs[k] * wb[k]);
        c += (uint32_t)(inputs[k] * wc[k]);
        d += (uint32_t)(inputs[k] * wd[k]);
    }
    sums[0] += (int32_t)a;
    sums[1] += (int32_t)b;
    sums[2] += (int32_t)c;
    sums[3] += (int32_t)d;
}

void dtn_cm_add_dots_s16(const int16_t *inputs, const int8_t *const rows[DTN_CM_ROWS], size_t count,
                         int64_t sums[DTN_CM_ROWS])
{
    for (size_t first = 0; first < count; first += PRODUCTS) {
        add_few(inputs, rows, first, first + PRODUCTS < count ? first + PRODUCTS : count, sums);
    }
}
