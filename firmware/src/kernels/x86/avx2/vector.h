/**
 * @file
 * Vectors of AVX2.
 */
#ifndef DTN_VECTOR_H
#define DTN_VECTOR_H

#include "../vector256.h"

static inline dtn_vector_t dtn_dot_pairs(dtn_vector_t sums, dtn_vector_t values, dtn_vector_t weights)
{
    return _mm256_add_epi32(sums, _mm256_madd_epi16(values, weights));
}

static inline dtn_vector_t dtn_dot(dtn_vector_t sums, dtn_vector_t values, dtn_vector_t weights)
{
    return dtn_dot_pairs(sums, values, weights);
}

#include "../dot2_s16.h"

#endif /* DTN_VECTOR_H */
