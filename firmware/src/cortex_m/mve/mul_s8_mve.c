#include "requantize_mve.h"

static inline int32x4_t products(int32x4_t a, int32x4_t b, const dtn_cm_elements_product_t *p,
                                 dtn_cm_lane_limits_t limits)
{
    int32x4_t product = vmulq_s32(vsubq_n_s32(a, p->a_zp), vsubq_n_s32(b, p->b_zp));
    return dtn_cm_limited(dtn_cm_multiply_quantized(product, p->factor), p->limits.zero_point, limits);
}

void dtn_cm_mul(const dtn_cm_elements_product_t *product, const int8_t *a, const int8_t *b, int8_t *out, size_t count)
{
    const dtn_cm_elements_product_t p = *product;
    dtn_cm_lane_limits_t limits = dtn_cm_lane_limits(p.limits);
    for (size_t left = count / DTN_CM_LANES; left != 0; left--) {
        vstrbq_s32(out, products(vldrbq_s32(a), vldrbq_s32(b), &p, limits));
        a += DTN_CM_LANES;
        b += DTN_CM_LANES;
        out += DTN_CM_LANES;
    }
    mve_pred16_t rest = vctp32q(count % DTN_CM_LANES);
    vstrbq_p_s32(out, products(vldrbq_z_s32(a, rest), vldrbq_z_s32(b, rest), &p, limits), rest);
}
