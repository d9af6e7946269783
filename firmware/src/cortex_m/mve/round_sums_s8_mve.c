#include <arm_mve.h>

#include "../float64_factor.h"
#include "../scale.h"

enum { LANES = 4 };

/* Four outputs, or fewer, by whole products. */
static __attribute__((noinline)) void round_exactly(const dtn_cm_rounding_t *r, const int32_t *sums, size_t first,
                                                    size_t end, int8_t *output)
{
    for (size_t j = first; j < end; j++) {
        int32_t value = dtn_cm_times_float64(sums[j], r->factors + j * r->step);
        output[j] = (int8_t)dtn_cm_clamp(dtn_cm_plus(value, r->offset), r->lo, r->hi);
    }
}

/* One word of the factors of four outputs. */
static inline uint32x4_t words_of(const dtn_cm_rounding_t *r, size_t first, size_t word, mve_pred16_t there)
{
    const uint32_t *words = (const uint32_t *)r->factors + first * r->step + word;
    uint32x4_t places = vmulq_n_u32(vidupq_n_u32(0, 1), (uint32_t)r->step);
    return vldrwq_gather_shifted_offset_z_u32(words, places, there);
}

void dtn_cm_round_sums(const dtn_cm_rounding_t *rounding, const int32_t *sums, size_t count, int8_t *output)
{
    /* A copy, which no store to the output can change. */
    const dtn_cm_rounding_t r = *rounding;
    const int32x4_t lo = vdupq_n_s32(r.lo);
    const int32x4_t hi = vdupq_n_s32(r.hi);
    uint32x4_t upper = vdupq_n_u32(0);
    uint32x4_t half = upper;
    int32x4_t drop = vdupq_n_s32(0);
    for (size_t first = 0; first < count; first += LANES) {
        const mve_pred16_t there = vctp32q((uint32_t)(count - first));
        if (first == 0 || r.step != 0) {
            upper = vsliq_n_u32(vshrq_n_u32(words_of(&r, first, DTN_CM_FACTOR_LOW, there), 21),
                                words_of(&r, first, DTN_CM_FACTOR_HIGH, there), 11);
            drop = vreinterpretq_s32_u32(words_of(&r, first, DTN_CM_FACTOR_SHIFT, there));
            drop = vsubq_n_s32(drop, DTN_CM_FACTOR_BITS);
            half = vshlq_u32(vdupq_n_u32(1), vsubq_n_s32(drop, 1));
        }
        const int32x4_t sum = vldrwq_z_s32(sums + first, there);
        const uint32x4_t magnitude = vreinterpretq_u32_s32(vabsq_s32(sum));
        const uint32x4_t rounded = vaddq_u32(vmulhq_u32(magnitude, upper), half);
        const uint32x4_t nearest = vshlq_u32(rounded, vnegq_s32(drop));
        mve_pred16_t is_unsure = vcmpneq_u32(vshlq_u32(vaddq_n_u32(rounded, 1), vnegq_s32(drop)), nearest);
        is_unsure |= vcmphiq_n_u32(vreinterpretq_u32_s32(vsubq_n_s32(drop, 1)), 30);
        if ((is_unsure & there) != 0) {
            round_exactly(&r, sums, first, first + LANES < count ? first + LANES : count, output);
            continue;
        }
        int32x4_t value = vreinterpretq_s32_u32(nearest);
        value = vnegq_m_s32(value, value, vcmpltq_n_s32(sum, 0));
        value = vminq_s32(vmaxq_s32(vaddq_n_s32(value, r.offset), lo), hi);
        vstrbq_p_s32(output + first, value, there);
    }
}
