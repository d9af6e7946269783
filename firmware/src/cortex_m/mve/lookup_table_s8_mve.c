#include <arm_mve.h>

#include "../element_loops.h"

enum { LANES = 16 };

void dtn_cm_look_up(const int8_t *table, const int8_t *in, int8_t *out, size_t count)
{
    uint8x16_t half = vdupq_n_u8(128);
    for (size_t left = count / LANES; left != 0; left--) {
        uint8x16_t at = veorq_u8(vreinterpretq_u8_s8(vld1q_s8(in)), half);
        vst1q_s8(out, vldrbq_gather_offset_s8(table, at));
        in += LANES;
        out += LANES;
    }
    mve_pred16_t rest = vctp8q(count % LANES);
    uint8x16_t at = veorq_u8(vreinterpretq_u8_s8(vld1q_z_s8(in, rest)), half);
    vst1q_p_s8(out, vldrbq_gather_offset_z_s8(table, at, rest), rest);
}
