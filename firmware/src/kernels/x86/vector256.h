/**
 * @file
 * Vectors of eight 32-bit numbers: the operations that do not depend on the summation of products.
 */
#pragma once

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "../requant.h"
#include "output_clamp.h"

typedef __m256i dtn_vector_t;

/** Numbers of a vector, and output pixels whose sums stay in registers together. */
enum { DTN_LANES = 8, DTN_PIXELS = 4 };

static inline dtn_vector_t dtn_load(const int32_t *from)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)from);
}

static inline void dtn_keep(int32_t *to, dtn_vector_t values)
{
    _mm256_storeu_si256((__m256i *)(void *)to, values);
}

static inline dtn_vector_t dtn_load_bytes(const int8_t *from)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)from);
}

/** Bytes with their top bits flipped, so that -128..127 becomes 0..255. */
static inline dtn_vector_t dtn_flip(dtn_vector_t bytes)
{
    return _mm256_xor_si256(bytes, _mm256_set1_epi8(INT8_MIN));
}

static inline dtn_vector_t dtn_splat(int32_t value)
{
    return _mm256_set1_epi32(value);
}

static inline dtn_vector_t dtn_subtract(dtn_vector_t a, dtn_vector_t b)
{
    return _mm256_sub_epi32(a, b);
}

/** Adds the totals of four vectors to four numbers. */
static inline void dtn_add_totals(const dtn_vector_t *v, int32_t *to)
{
    __m256i ab = _mm256_add_epi32(_mm256_unpacklo_epi32(v[0], v[1]), _mm256_unpackhi_epi32(v[0], v[1]));
    __m256i cd = _mm256_add_epi32(_mm256_unpacklo_epi32(v[2], v[3]), _mm256_unpackhi_epi32(v[2], v[3]));
    __m256i all = _mm256_add_epi32(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd));
    __m128i last = _mm_add_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
    last = _mm_add_epi32(last, _mm_loadu_si128((const __m128i *)(const void *)to));
    _mm_storeu_si128((__m128i *)(void *)to, last);
}

/** The factors of a vector's sums: multipliers, also those of odd elements at even ones, right shifts less 32, and the
 * half and the mask of the bits shifted out. */
enum { DTN_FACTORS = 5 };

/** The multipliers and shifts of as many rows as a vector has numbers. */
static inline void dtn_load_rows(const dtn_requant_row_t *rows, dtn_vector_t *multiplier, dtn_vector_t *shift)
{
    const int32_t *words = (const int32_t *)(const void *)rows;
    __m256 first = _mm256_castsi256_ps(dtn_load(words));
    __m256 last = _mm256_castsi256_ps(dtn_load(words + DTN_LANES));
    __m256i even = _mm256_castps_si256(_mm256_shuffle_ps(first, last, 0x88));
    __m256i odd = _mm256_castps_si256(_mm256_shuffle_ps(first, last, 0xDD));
    *multiplier = _mm256_permute4x64_epi64(even, 0xD8);
    *shift = _mm256_permute4x64_epi64(odd, 0xD8);
}

/** Writes factors; shifts are above 32. Where no sum is a tie, the half has the output's zero point with it. */
static inline void dtn_write_factors(dtn_vector_t multiplier, dtn_vector_t shift, const dtn_limits_t *limits,
                                     int32_t *factors)
{
    __m256i right = _mm256_sub_epi32(shift, dtn_splat(32));
    __m256i unit = _mm256_sllv_epi32(dtn_splat(1), right);
    __m256i half = _mm256_srli_epi32(unit, 1);
    if (!limits->ties) {
        half = _mm256_add_epi32(half, _mm256_sllv_epi32(dtn_splat(limits->zero_point), right));
    }
    dtn_keep(factors, multiplier);
    dtn_keep(factors + DTN_LANES, _mm256_srli_epi64(multiplier, 32));
    dtn_keep(factors + 2 * DTN_LANES, right);
    dtn_keep(factors + 3 * DTN_LANES, half);
    dtn_keep(factors + 4 * DTN_LANES, _mm256_sub_epi32(unit, dtn_splat(1)));
}

/** zero point + round(sums * multiplier / 2^(32 + right)), ties to even. The upper half of the product is rounded up at
 * ties; a tie is where nothing is left of it and of the lower half, and its result loses the last bit. */
static inline dtn_vector_t dtn_scale(dtn_vector_t sums, const int32_t *factors, const dtn_limits_t *limits,
                                     const bool ties)
{
    __m256i right = dtn_load(factors + 2 * DTN_LANES);
    __m256i even = _mm256_mul_epi32(sums, dtn_load(factors));
    __m256i odd = _mm256_mul_epi32(_mm256_srli_epi64(sums, 32), dtn_load(factors + DTN_LANES));
    __m256i top = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
    top = _mm256_add_epi32(top, dtn_load(factors + 3 * DTN_LANES));
    __m256i values = _mm256_srav_epi32(top, right);
    if (!ties) {
        return values;
    }
    __m256i low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
    __m256i rest = _mm256_or_si256(low, _mm256_and_si256(top, dtn_load(factors + 4 * DTN_LANES)));
    __m256i tie = _mm256_cmpeq_epi32(rest, _mm256_setzero_si256());
    values = _mm256_andnot_si256(_mm256_srli_epi32(tie, 31), values);
    return _mm256_add_epi32(values, _mm256_set1_epi32(limits->zero_point));
}

/** Bytes held within limits. */
static inline __m128i dtn_hold(__m128i bytes, const dtn_limits_t *limits)
{
    bytes = _mm_max_epi8(bytes, _mm_set1_epi8((char)limits->lo));
    return _mm_min_epi8(bytes, _mm_set1_epi8((char)limits->hi));
}

/** Stores the first `n` of a vector's numbers, at most all, as bytes held within limits. */
static inline void dtn_store_s8(int8_t *out, dtn_vector_t values, const dtn_limits_t *limits, int32_t n)
{
    __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(values), _mm256_extracti128_si256(values, 1));
    __m128i bytes = dtn_hold(_mm_packs_epi16(words, words), limits);
    if (n >= DTN_LANES) {
        _mm_storel_epi64((__m128i *)(void *)out, bytes);
    } else {
        int8_t all[16];
        _mm_storeu_si128((__m128i *)(void *)all, bytes);
        memcpy(out, all, (size_t)n);
    }
}

/** The first `n` of two vectors' worth of bytes, at most all, as 16-bit numbers. */
static inline dtn_vector_t dtn_widen(const int8_t *from, int32_t n)
{
    if (n >= 2 * DTN_LANES) {
        return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)from));
    }
    if (n == DTN_LANES) {
        return _mm256_cvtepi8_epi16(_mm_loadl_epi64((const __m128i *)(const void *)from));
    }
    int8_t all[16] = {0};
    memcpy(all, from, (size_t)n);
    return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)all));
}

/** The 16-bit numbers of `a` and `b` in turn, four of each at a time; the other half of them; and back again, from
 * 32-bit numbers to bytes. */
static inline dtn_vector_t dtn_zip_low(dtn_vector_t a, dtn_vector_t b)
{
    return _mm256_unpacklo_epi16(a, b);
}

static inline dtn_vector_t dtn_zip_high(dtn_vector_t a, dtn_vector_t b)
{
    return _mm256_unpackhi_epi16(a, b);
}

static inline void dtn_store_zipped_s8(int8_t *out, dtn_vector_t low, dtn_vector_t high, const dtn_limits_t *limits,
                                       int32_t n)
{
    __m256i words = _mm256_packs_epi32(low, high);
    __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    bytes = dtn_hold(bytes, limits);
    if (n >= 2 * DTN_LANES) {
        _mm_storeu_si128((__m128i *)(void *)out, bytes);
    } else {
        int8_t all[16];
        _mm_storeu_si128((__m128i *)(void *)all, bytes);
        memcpy(out, all, (size_t)n);
    }
}
