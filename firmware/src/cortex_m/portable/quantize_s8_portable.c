#include <string.h>

#include "../element_loops.h"

/*
 * Adding 3 * 2^22 to a number below 2^22 rounds it to a whole one, ties to even, which the lower bits of the sum then
 * hold. The bits of floats are in the order of the numbers, but that of those below zero, which are negative.
 */
static const float whole = 12582912.0F;
static const int32_t bits_of_whole = 0x4B400000;
/* The bits of 2^63; those of NaN are larger, or negative. */
static const int32_t bits_of_2_to_63 = 0x5F000000;

/* Numbers that are the same for each element: the bits of the least output, and the distance of the others. */
typedef struct {
    float inverse;
    uint32_t least;
    uint32_t span;
    uint32_t zero_point;
} terms_t;

static inline uint32_t quantized(terms_t t, float in)
{
    float quotient = in * t.inverse;
    float sum = quotient + whole;
    uint32_t bits;
    memcpy(&bits, &sum, sizeof bits);
    if (bits - t.least > t.span) {
        bits = (int32_t)bits < (int32_t)t.least || (int32_t)bits >= bits_of_2_to_63 ? t.least : t.least + t.span;
    }
    return bits + t.zero_point;
}

static terms_t terms_of(const dtn_cm_quantization_t *q)
{
    return (terms_t){q->inverse, (uint32_t)(bits_of_whole - q->zero_point + q->lo), (uint32_t)(q->hi - q->lo),
                     (uint32_t)q->zero_point};
}

void dtn_cm_quantize(const dtn_cm_quantization_t *quantization, const float *in, uint8_t *out, size_t count)
{
    const terms_t t = terms_of(quantization);
    for (; count >= 4; count -= 4, in += 4, out += 4) {
        float a = in[0];
        float b = in[1];
        float c = in[2];
        float d = in[3];
        out[0] = (uint8_t)quantized(t, a);
        out[1] = (uint8_t)quantized(t, b);
        out[2] = (uint8_t)quantized(t, c);
        out[3] = (uint8_t)quantized(t, d);
    }
    for (size_t i = 0; i < count; i++) {
        out[i] = (uint8_t)quantized(t, in[i]);
    }
}

void dtn_cm_quantize_s16(const dtn_cm_quantization_t *quantization, const float *in, int16_t *out, size_t count)
{
    const terms_t t = terms_of(quantization);
    for (size_t i = 0; i < count; i++) {
        out[i] = (int16_t)(uint16_t)quantized(t, in[i]);
    }
}

void dtn_cm_dequantize(float scale, int32_t zero_point, const int8_t *in, float *out, size_t count)
{
    for (; count >= 4; count -= 4, in += 4, out += 4) {
        float a = (float)(in[0] - zero_point) * scale;
        float b = (float)(in[1] - zero_point) * scale;
        float c = (float)(in[2] - zero_point) * scale;
        float d = (float)(in[3] - zero_point) * scale;
        out[0] = a;
        out[1] = b;
        out[2] = c;
        out[3] = d;
    }
    for (size_t i = 0; i < count; i++) {
        out[i] = (float)(in[i] - zero_point) * scale;
    }
}
