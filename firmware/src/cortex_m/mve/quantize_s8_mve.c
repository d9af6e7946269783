#include <arm_mve.h>

#include "../element_loops.h"

enum { LANES = 4 };

/*
 * Adding 3 * 2^22 to a number below 2^22 rounds it to a whole one, ties to even, which the lower bits of the sum then
 * hold. The bits of floats are in the order of the numbers, but that of those below zero, which are negative. With
 * 2^31 less the bits of 2^63 added, all from 2^63 on is negative as well, and NaN; numbers that were negative are below
 * the rest.
 */
static const float whole = 12582912.0F;
enum { BITS_OF_WHOLE = 0x4B400000, TURN = 0x21000000 };

typedef struct {
    float inverse;
    int32x4_t least;
    int32x4_t most;
    int32_t zero_point;
} terms_t;

static inline uint32x4_t quantized(float32x4_t in, const terms_t *t)
{
    float32x4_t sum = vaddq_n_f32(vmulq_n_f32(in, t->inverse), whole);
    int32x4_t bits = vaddq_n_s32(vreinterpretq_s32_f32(sum), TURN);
    bits = vminq_s32(vmaxq_s32(bits, t->least), t->most);
    return vreinterpretq_u32_s32(vaddq_n_s32(bits, t->zero_point));
}

static inline terms_t terms_of(const dtn_cm_quantization_t *quantization)
{
    int32_t zero = BITS_OF_WHOLE + TURN - quantization->zero_point;
    return (terms_t){
        .inverse = quantization->inverse,
        .least = vdupq_n_s32(zero + quantization->lo),
        .most = vdupq_n_s32(zero + quantization->hi),
        .zero_point = quantization->zero_point,
    };
}

void dtn_cm_quantize(const dtn_cm_quantization_t *quantization, const float *in, uint8_t *out, size_t count)
{
    const terms_t t = terms_of(quantization);
    for (size_t left = count / LANES; left != 0; left--) {
        vstrbq_u32(out, quantized(vld1q_f32(in), &t));
        in += LANES;
        out += LANES;
    }
    mve_pred16_t rest = vctp32q(count % LANES);
    vstrbq_p_u32(out, quantized(vld1q_z_f32(in, rest), &t), rest);
}

void dtn_cm_quantize_s16(const dtn_cm_quantization_t *quantization, const float *in, int16_t *out, size_t count)
{
    const terms_t t = terms_of(quantization);
    for (size_t left = count / LANES; left != 0; left--) {
        vstrhq_s32(out, vreinterpretq_s32_u32(quantized(vld1q_f32(in), &t)));
        in += LANES;
        out += LANES;
    }
    mve_pred16_t rest = vctp32q(count % LANES);
    vstrhq_p_s32(out, vreinterpretq_s32_u32(quantized(vld1q_z_f32(in, rest), &t)), rest);
}

void dtn_cm_dequantize(float scale, int32_t zero_point, const int8_t *in, float *out, size_t count)
{
    for (size_t left = count / LANES; left != 0; left--) {
        vst1q_f32(out, vmulq_n_f32(vcvtq_f32_s32(vsubq_n_s32(vldrbq_s32(in), zero_point)), scale));
        in += LANES;
        out += LANES;
    }
    mve_pred16_t rest = vctp32q(count % LANES);
    float32x4_t last = vcvtq_f32_s32(vsubq_n_s32(vldrbq_z_s32(in, rest), zero_point));
    vst1q_p_f32(out, vmulq_n_f32(last, scale), rest);
}
