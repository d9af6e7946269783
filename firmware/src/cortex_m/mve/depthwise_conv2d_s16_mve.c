#include <arm_mve.h>

#include "../int16.h"

enum { LANES = 4 };

void dtn_cm_add_tap_s16(const int16_t *inputs, const int8_t *weights, size_t step, size_t count, int32_t *sums)
{
    uint32x4_t places = vmulq_n_u32(vidupq_n_u32(0, 1), (uint32_t)step);
    for (size_t i = 0; i < count; i += LANES) {
        mve_pred16_t lanes = vctp32q((uint32_t)(count - i));
        int32x4_t factors = vldrbq_gather_offset_z_s32(weights + i * step, places, lanes);
        int32x4_t products = vmulq_s32(vldrhq_z_s32(inputs + i, lanes), factors);
        vst1q_p_s32(sums + i, vaddq_s32(vld1q_z_s32(sums + i, lanes), products), lanes);
    }
}
