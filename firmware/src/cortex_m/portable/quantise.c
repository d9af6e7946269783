#include <string.h>

#include "../elements.h"

/*
 * Adding 3 * 2^22 to a number below 2^22 rounds it to a whole one, ties to even, which the lower bits of the sum then
 * hold. The bits of floats are in the order of the numbers, but that of those below zero, which are negative.
 */
static const float whole = 12582912.0F;
static const int32_t bits_of_whole = 0x4B400000;
/* The bits of 2^63; those of NaN are larger, or negative. */
static const int32_t bits_of_2_to_63 = 0x5F000000;

void dtn_cm_quantise(const dtn_cm_quantisation_t *quantisation, const float *in, uint8_t *out, size_t count)
{
    dtn_cm_quantisation_t q = *quantisation;
    uint32_t least = (uint32_t)(bits_of_whole - q.zero_point + q.lo);
    uint32_t span = (uint32_t)(q.hi - q.lo);
    for (size_t i = 0; i < count; i++) {
        float quotient = in[i] * q.inverse;
        float sum = quotient + whole;
        int32_t bits;
        memcpy(&bits, &sum, sizeof bits);
        uint32_t above = (uint32_t)bits - least;
        if (above > span) {
            above = bits < (int32_t)least || bits >= bits_of_2_to_63 ? 0 : span;
        }
        out[i] = (uint8_t)(above + (uint32_t)q.lo);
    }
}

void dtn_cm_dequantise(float scale, int32_t zero_point, const int8_t *in, float *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        out[i] = (float)(in[i] - zero_point) * scale;
    }
}
