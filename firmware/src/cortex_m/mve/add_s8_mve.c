#include "requantize_mve.h"

/* Numbers that are the same for each element. */
typedef struct {
    int32x4_t other_power;
    int32_t other_start;
    dtn_cm_quantized_multiplier_t other;
    int32_t halved_power;
    int32_t halved_start;
    dtn_cm_quantized_multiplier_t factor;
    int32_t zero_point;
    dtn_cm_lane_limits_t limits;
} terms_t;

static inline int32x4_t sums(int32x4_t halved, int32x4_t other, const terms_t *t)
{
    int32x4_t scaled = dtn_cm_multiply_quantized(vmlasq_n_s32(other, t->other_power, t->other_start), t->other);
    int32x4_t both = vaddq_n_s32(vmlaq_n_s32(scaled, halved, t->halved_power), t->halved_start);
    return dtn_cm_limited(dtn_cm_multiply_quantized(both, t->factor), t->zero_point, t->limits);
}

void dtn_cm_add(const dtn_cm_sum_t *sum, const int8_t *halved, const int8_t *other, int8_t *out, size_t count)
{
    const int32_t half = 1 << 19;
    const terms_t t = {
        .other_power = vdupq_n_s32(1 << sum->other_left),
        .other_start = -sum->other_zp * (1 << sum->other_left),
        .other = sum->other,
        .halved_power = half,
        .halved_start = -sum->halved_zp * half,
        .factor = sum->factor,
        .zero_point = sum->limits.zero_point,
        .limits = dtn_cm_lane_limits(sum->limits),
    };
    for (size_t left = count / DTN_CM_LANES; left != 0; left--) {
        vstrbq_s32(out, sums(vldrbq_s32(halved), vldrbq_s32(other), &t));
        halved += DTN_CM_LANES;
        other += DTN_CM_LANES;
        out += DTN_CM_LANES;
    }
    mve_pred16_t rest = vctp32q(count % DTN_CM_LANES);
    vstrbq_p_s32(out, sums(vldrbq_z_s32(halved, rest), vldrbq_z_s32(other, rest), &t), rest);
}
