#include "../element_loops.h"

/* Fractional bits of a product, and a little less than a half. */
enum { POINT = 54 };
static const uint64_t below_half = (UINT64_C(1) << (POINT - 1)) - 1;

void dtn_cm_softmax_outputs(const dtn_cm_row_t *row, const int8_t *in, int8_t *out, size_t count)
{
    for (; count != 0; count--, in += row->step, out += row->step) {
        uint64_t product = (uint64_t)row->powers[row->largest - *in] * row->reciprocal;
        uint32_t share = (uint32_t)((product + below_half + (product >> POINT & 1U)) >> POINT);
        *out = (int8_t)((int32_t)(share > UINT8_MAX ? UINT8_MAX : share) + INT8_MIN);
    }
}
