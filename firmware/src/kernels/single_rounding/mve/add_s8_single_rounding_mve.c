#include <arm_mve.h>

#include "../add_s8_single_rounding.h"

enum { LANES = 4 };

/* Numbers of the lanes that are no operands of an instruction. */
typedef struct {
    int32x4_t a_upper;
    int32x4_t a_lower;
    int32x4_t lo;
    int32x4_t hi;
    int32x4_t half; /* the rest of a tie, in the upper bits */
    int32x4_t zero;
    int32x4_t even; /* all bits but the last */
} lanes_t;

static inline int32x4_t sums(const dtn_sr_sum_t *s, const lanes_t *lanes, int32x4_t a, int32x4_t b)
{
    int32x4_t lower = vmlaq_n_s32(vmlasq_n_s32(a, lanes->a_lower, s->start_lower), b, s->b_lower);
    int32x4_t upper = vmlaq_n_s32(vmlasq_n_s32(a, lanes->a_upper, s->start_upper), b, s->b_upper);
    upper = vaddq_s32(upper, vshrq_n_s32(lower, 16));
    int32x4_t values = vrshlq_n_s32(upper, -s->shift);
    /* Ties were rounded up: of an odd number to the even one below. */
    int32x4_t rest = veorq_s32(vshlq_r_s32(upper, 32 - s->shift), lanes->half);
    /* GCC 12 crashes here on `vcmpeqq_n_s32` with a constant when it optimises, hence the vector of zeros. */
    mve_pred16_t ties = vcmpeqq_s32(vorrq_s32(rest, vshlq_n_s32(lower, 16)), lanes->zero);
    values = vandq_m_s32(values, values, lanes->even, ties);
    return vminq_s32(vmaxq_s32(vaddq_n_s32(values, s->zero_point), lanes->lo), lanes->hi);
}

void dtn_sr_add(const dtn_sr_sum_t *sum, const int8_t *a, const int8_t *b, int8_t *out, size_t count)
{
    const dtn_sr_sum_t s = *sum; /* a copy, which no store to the output can change */
    const lanes_t lanes = {
        .a_upper = vdupq_n_s32(s.a_upper),
        .a_lower = vdupq_n_s32(s.a_lower),
        .lo = vdupq_n_s32(s.lo),
        .hi = vdupq_n_s32(s.hi),
        .half = vdupq_n_s32(INT32_MIN),
        .zero = vdupq_n_s32(0),
        .even = vdupq_n_s32(-2),
    };
    for (size_t left = count / LANES; left != 0; left--) {
        vstrbq_s32(out, sums(&s, &lanes, vldrbq_s32(a), vldrbq_s32(b)));
        a += LANES;
        b += LANES;
        out += LANES;
    }
    mve_pred16_t rest = vctp32q(count % LANES);
    vstrbq_p_s32(out, sums(&s, &lanes, vldrbq_z_s32(a, rest), vldrbq_z_s32(b, rest)), rest);
}
