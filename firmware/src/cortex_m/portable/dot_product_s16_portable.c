#include "../int16.h"

/* The sum of this many products fits 32 bits. */
enum { PRODUCTS = 256 };

static void add_few(const int16_t *inputs, const int8_t *const rows[DTN_CM_ROWS], size_t first, size_t end,
                    int64_t sums[DTN_CM_ROWS])
{
    int32_t a = 0;
    int32_t b = 0;
    int32_t c = 0;
    int32_t d = 0;
    for (size_t k = first; k < end; k++) {
        int32_t input = inputs[k];
        a += input * rows[0][k];
        b += input * rows[1][k];
        c += input * rows[2][k];
        d += input * rows[3][k];
    }
    sums[0] += a;
    sums[1] += b;
    sums[2] += c;
    sums[3] += d;
}

void dtn_cm_add_dots_s16(const int16_t *inputs, const int8_t *const rows[DTN_CM_ROWS], size_t count,
                         int64_t sums[DTN_CM_ROWS])
{
    for (size_t first = 0; first < count; first += PRODUCTS) {
        add_few(inputs, rows, first, first + PRODUCTS < count ? first + PRODUCTS : count, sums);
    }
}
