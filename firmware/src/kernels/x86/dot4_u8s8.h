/**
 * @file
 * Products of unsigned with signed bytes, four to a sum (VNNI). Inputs become unsigned by adding 128. That and the
 * input's zero point add (128 + zero point) times the sum of the weights to a sum, which is subtracted again.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/** An input as it is multiplied; products to a sum; inputs of a vector. */
typedef uint8_t dtn_value_t;
enum { DTN_GROUP = 4, DTN_VALUES = DTN_GROUP * DTN_LANES };

/** The value in a window outside the map. */
static inline dtn_value_t dtn_outside(int32_t zero_point)
{
    return (dtn_value_t)(zero_point + 128);
}

/** Writes sixteen inputs as they are multiplied. */
static inline void dtn_values16(const int8_t *in, int32_t zero_point, dtn_value_t *out)
{
    (void)zero_point;
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)in);
    _mm_storeu_si128((__m128i *)(void *)out, _mm_xor_si128(bytes, _mm_set1_epi8(INT8_MIN)));
}

/** One input as it is multiplied. */
static inline dtn_value_t dtn_value(int8_t in, int32_t zero_point)
{
    (void)zero_point;
    return (dtn_value_t)(in + 128);
}

/** Sixteen bytes' worth of weights as they are multiplied. */
static inline __m128i dtn_groups(const int8_t *weights)
{
    return _mm_loadu_si128((const __m128i *)(const void *)weights);
}

/** `n` weights, 1 to 4, as one number of a vector. */
static inline int32_t dtn_group_of(const int8_t *weights, size_t n)
{
    int32_t group = 0;
    memcpy(&group, weights, n);
    return group;
}

/** DTN_VALUES inputs, and weights, that lie side by side. */
static inline dtn_vector_t dtn_inputs(const int8_t *in, int32_t zero_point)
{
    (void)zero_point;
    return dtn_flip(dtn_load_bytes(in));
}

static inline dtn_vector_t dtn_weights(const int8_t *weights)
{
    return dtn_load_bytes(weights);
}

/** True if a correction must be subtracted: not with a zero point of -128, that of values that are never negative. */
static inline bool dtn_has_offset(int32_t zero_point)
{
    return zero_point != INT8_MIN;
}

/** The correction for the conversion of the inputs: this times the weights, to be subtracted. */
static inline dtn_vector_t dtn_offset(int32_t zero_point)
{
    return dtn_splat((int32_t)(0x01010101U * (uint32_t)(zero_point + 128)));
}

static inline dtn_vector_t dtn_dot_offset(dtn_vector_t sums, dtn_vector_t offset, dtn_vector_t weights)
{
    return dtn_dot(sums, offset, weights);
}

/** Products of DTN_VALUES inputs whose zero point is 0 with weights: here weights become unsigned, which adds 128 times
 * the inputs, whatever the channel. */
static inline dtn_vector_t dtn_dot_plain(dtn_vector_t sums, dtn_vector_t in, dtn_vector_t weights)
{
    return dtn_dot(sums, dtn_flip(weights), in);
}

static inline int32_t dtn_excess(const int8_t *in, size_t count)
{
    int32_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += in[i];
    }
    return 128 * sum;
}

static inline dtn_vector_t dtn_plain(const int8_t *in)
{
    return dtn_load_bytes(in);
}

/** The last `rest` inputs of a vector, behind zeros. */
static inline dtn_vector_t dtn_last_plain(const int8_t *end, size_t rest)
{
    int8_t values[DTN_VALUES] = {0};
    memcpy(values + DTN_VALUES - rest, end - rest, rest);
    return dtn_load_bytes(values);
}
