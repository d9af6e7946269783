/**
 * @file
 * Products of 16-bit numbers, two to a sum: inputs less their zero point, and weights.
 */
#ifndef DTN_DOT2_S16_H
#define DTN_DOT2_S16_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** An input as it is multiplied; products to a sum; inputs of a vector. */
typedef int16_t dtn_value_t;
enum { DTN_GROUP = 2, DTN_VALUES = DTN_GROUP * DTN_LANES };

/** The value in a window outside the map. */
static inline dtn_value_t dtn_outside(int32_t zero_point)
{
    (void)zero_point;
    return 0;
}

/** Writes sixteen inputs as they are multiplied. */
static inline void dtn_values16(const int8_t *in, int32_t zero_point, dtn_value_t *out)
{
    __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)in));
    wide = _mm256_sub_epi16(wide, _mm256_set1_epi16((int16_t)zero_point));
    _mm256_storeu_si256((__m256i *)(void *)out, wide);
}

/** One input as it is multiplied. */
static inline dtn_value_t dtn_value(int8_t in, int32_t zero_point)
{
    return (dtn_value_t)(in - zero_point);
}

/** Sixteen bytes' worth of weights as they are multiplied. */
static inline __m128i dtn_groups(const int8_t *weights)
{
    return _mm_cvtepi8_epi16(_mm_loadl_epi64((const __m128i *)(const void *)weights));
}

/** `n` weights, 1 or 2, as one number of a vector. */
static inline int32_t dtn_group_of(const int8_t *weights, size_t n)
{
    uint32_t high = n > 1 ? (uint32_t)weights[1] << 16 : 0;
    return (int32_t)(high | ((uint32_t)weights[0] & 0xFFFFU));
}

/** DTN_VALUES inputs, and weights, that lie side by side. */
static inline dtn_vector_t dtn_inputs(const int8_t *in, int32_t zero_point)
{
    __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)in));
    return _mm256_sub_epi16(wide, _mm256_set1_epi16((int16_t)zero_point));
}

static inline dtn_vector_t dtn_weights(const int8_t *weights)
{
    return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)weights));
}

/** True if a correction must be subtracted. */
static inline bool dtn_has_offset(int32_t zero_point)
{
    (void)zero_point;
    return false;
}

/** The correction for the conversion of the inputs: 0 here. */
static inline dtn_vector_t dtn_offset(int32_t zero_point)
{
    (void)zero_point;
    return _mm256_setzero_si256();
}

static inline dtn_vector_t dtn_dot_offset(dtn_vector_t sums, dtn_vector_t offset, dtn_vector_t weights)
{
    (void)offset;
    (void)weights;
    return sums;
}

/** Products of DTN_VALUES inputs whose zero point is 0 with weights, and the number to subtract from these. */
static inline dtn_vector_t dtn_dot_plain(dtn_vector_t sums, dtn_vector_t in, dtn_vector_t weights)
{
    return dtn_dot(sums, in, weights);
}

static inline int32_t dtn_excess(const int8_t *in, size_t count)
{
    (void)in;
    (void)count;
    return 0;
}

static inline dtn_vector_t dtn_plain(const int8_t *in)
{
    return dtn_inputs(in, 0);
}

/** The last `rest` inputs of a vector, behind zeros. */
static inline dtn_vector_t dtn_last_plain(const int8_t *end, size_t rest)
{
    int8_t values[DTN_VALUES] = {0};
    for (size_t i = 1; i <= rest; i++) {
        values[DTN_VALUES - i] = end[-(ptrdiff_t)i];
    }
    return dtn_inputs(values, 0);
}

#endif /* DTN_DOT2_S16_H */
