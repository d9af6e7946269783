#include <arm_mve.h>

#include "../element_loops.h"

/* Bits behind the point of a product's upper half, and a little less than a half. */
enum { LANES = 4, POINT = 22, BELOW_HALF = (1 << (POINT - 1)) - 1 };

static inline uint32x4_t shares(uint32x4_t powers, uint32_t reciprocal)
{
    uint32x4_t one = vdupq_n_u32(1);
    uint32x4_t high = vmulhq_u32(powers, vdupq_n_u32(reciprocal));
    uint32x4_t low = vmulq_n_u32(powers, reciprocal);
    /* A half is rounded up if the number is odd, or if the lower half of the product is not 0. */
    uint32x4_t up = vorrq_u32(vandq_u32(vshrq_n_u32(high, POINT), one), vminq_u32(low, one));
    uint32x4_t share = vshrq_n_u32(vaddq_u32(vaddq_n_u32(high, BELOW_HALF), up), POINT);
    return vsubq_n_u32(vminq_u32(share, vdupq_n_u32(UINT8_MAX)), -INT8_MIN);
}

void dtn_cm_softmax_outputs(const dtn_cm_row_t *row, const int8_t *in, int8_t *out, size_t count)
{
    uint32x4_t places = vmulq_n_u32(vidupq_n_u32(0, 1), (uint32_t)row->step);
    int32x4_t largest = vdupq_n_s32(row->largest);
    for (size_t left = count / LANES; left != 0; left--) {
        int32x4_t below = vsubq_s32(largest, vldrbq_gather_offset_s32(in, places));
        uint32x4_t powers = vldrwq_gather_shifted_offset_u32(row->powers, vreinterpretq_u32_s32(below));
        vstrbq_scatter_offset_u32((uint8_t *)out, places, shares(powers, row->reciprocal));
        in += LANES * row->step;
        out += LANES * row->step;
    }
    mve_pred16_t rest = vctp32q(count % LANES);
    int32x4_t below = vsubq_s32(largest, vldrbq_gather_offset_z_s32(in, places, rest));
    uint32x4_t powers = vldrwq_gather_shifted_offset_z_u32(row->powers, vreinterpretq_u32_s32(below), rest);
    vstrbq_scatter_offset_p_u32((uint8_t *)out, places, shares(powers, row->reciprocal), rest);
}
