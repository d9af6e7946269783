/**
 * @file
 * Vectors of AVX-512 with VNNI.
 */
#ifndef DTN_VECTOR_H
#define DTN_VECTOR_H

#include "../vector512.h"

static inline dtn_vector_t dtn_dot(dtn_vector_t sums, dtn_vector_t values, dtn_vector_t weights)
{
    return _mm512_dpbusd_epi32(sums, values, weights);
}

static inline dtn_vector_t dtn_dot_pairs(dtn_vector_t sums, dtn_vector_t values, dtn_vector_t weights)
{
    return _mm512_dpwssd_epi32(sums, values, weights);
}

#include "../dot4_u8s8.h"

#endif /* DTN_VECTOR_H */
