#include <arm_mve.h>

#include "../element_loops.h"

enum { LANES = 16 };

static inline int8x16_t larger(int8x16_t a, int8x16_t b, int8x16_t flip)
{
    return veorq_s8(vmaxq_s8(veorq_s8(a, flip), veorq_s8(b, flip)), flip);
}

void dtn_cm_extremum_elements(int8_t flip, const int8_t *a, const int8_t *b, int8_t *out, size_t count)
{
    int8x16_t bits = vdupq_n_s8(flip);
    for (size_t left = count / LANES; left != 0; left--) {
        vst1q_s8(out, larger(vld1q_s8(a), vld1q_s8(b), bits));
        a += LANES;
        b += LANES;
        out += LANES;
    }
    mve_pred16_t rest = vctp8q(count % LANES);
    vst1q_p_s8(out, larger(vld1q_z_s8(a, rest), vld1q_z_s8(b, rest), bits), rest);
}
