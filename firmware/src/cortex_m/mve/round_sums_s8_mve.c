#include <arm_mve.h>

#include "../round_sums_s8.h"

enum { LANES = 4 };

/* Factors of four outputs. */
typedef struct {
    uint32x4_t upper;
    uint32x4_t half;
    int32x4_t left;      /* shift of the upper word of a product */
    uint32x4_t is_large; /* not 0 where that shift is not within 1 to 32 */
} factors_t;

/* One word of the factors of four outputs. */
static inline uint32x4_t words_of(const int32_t *factors, size_t step, size_t word)
{
    const uint32x4_t places = vmulq_n_u32(vidupq_n_u32(0, 1), (uint32_t)step);
    return vldrwq_gather_shifted_offset_u32((const uint32_t *)factors + word, places);
}

static inline factors_t factors_of(const int32_t *factors, size_t step)
{
    const uint32x4_t low = words_of(factors, step, DTN_CM_FACTOR_LOW);
    const uint32x4_t drop = vsubq_n_u32(words_of(factors, step, DTN_CM_FACTOR_SHIFT), DTN_CM_FACTOR_BITS);
    const int32x4_t shift = vreinterpretq_s32_u32(drop);
    return (factors_t){
        .upper = vsliq_n_u32(vshrq_n_u32(low, 21), words_of(factors, step, DTN_CM_FACTOR_HIGH), 11),
        .half = vshlq_u32(vdupq_n_u32(1), vsubq_n_s32(shift, 1)),
        .left = vnegq_s32(shift),
        .is_large = vshrq_n_u32(vsubq_n_u32(drop, 1), 5),
    };
}

/* Rounds four sums; bits of `unsure` become 1 where the upper bits of the factors do not decide. */
static inline void round_four(const dtn_cm_rounding_t *r, const factors_t *factors, const int32_t *sums, int8_t *output,
                              uint32x4_t *unsure)
{
    const int32x4_t sum = vldrwq_s32(sums);
    const uint32x4_t magnitude = vreinterpretq_u32_s32(vabsq_s32(sum));
    const uint32x4_t rounded = vaddq_u32(vmulhq_u32(magnitude, factors->upper), factors->half);
    const uint32x4_t nearest = vshlq_u32(rounded, factors->left);
    const uint32x4_t carry = vshrq_n_u32(vhaddq_u32(vmulq_u32(magnitude, factors->upper), magnitude), 31);
    const uint32x4_t other = vshlq_u32(vaddq_u32(rounded, carry), factors->left);
    *unsure = vorrq_u32(*unsure, veorq_u32(other, nearest));
    const int32x4_t sign = vshrq_n_s32(sum, 31);
    int32x4_t value = vsubq_s32(veorq_s32(vreinterpretq_s32_u32(nearest), sign), sign);
    value = vmaxq_s32(vaddq_n_s32(value, r->offset), vdupq_n_s32(r->lo));
    vstrbq_s32(output, vminq_s32(value, vdupq_n_s32(r->hi)));
}

void dtn_cm_round_sums(const dtn_cm_rounding_t *rounding, const int32_t *sums, size_t count, int8_t *output)
{
    dtn_cm_rounding_t r = *rounding; /* which no store to the output can change */
    const size_t whole = count & ~(size_t)(LANES - 1);
    size_t done = 0;
    if (whole != 0) {
        factors_t factors = factors_of(r.factors, r.step);
        uint32x4_t unsure = factors.is_large;
        for (; done < whole; done += LANES) {
            if (r.step != 0) {
                factors = factors_of(r.factors + done * r.step, r.step);
                unsure = vorrq_u32(unsure, factors.is_large);
            }
            round_four(&r, &factors, sums + done, output + done, &unsure);
        }
        done = vmaxvq_u32(0, unsure) == 0 ? whole : 0;
    }
    if (done != count) {
        r.factors += done * r.step;
        dtn_cm_round_sums_one_by_one(&r, sums + done, count - done, output + done);
    }
}
