/**
 * @file
 * Vectors of sixteen 32-bit numbers: the operations that do not depend on the summation of products.
 */
#pragma once

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#include "../requant.h"
#include "output_clamp.h"

typedef __m512i dtn_vector_t;

/** Numbers of a vector, and output pixels whose sums stay in registers together. */
enum { DTN_LANES = 16, DTN_PIXELS = 8 };

static inline dtn_vector_t dtn_load(const int32_t *from)
{
    return _mm512_loadu_si512(from);
}

static inline void dtn_keep(int32_t *to, dtn_vector_t values)
{
    _mm512_storeu_si512(to, values);
}

static inline dtn_vector_t dtn_load_bytes(const int8_t *from)
{
    return _mm512_loadu_si512(from);
}

/** Bytes with their top bits flipped, so that -128..127 becomes 0..255. */
static inline dtn_vector_t dtn_flip(dtn_vector_t bytes)
{
    return _mm512_xor_si512(bytes, _mm512_set1_epi8(INT8_MIN));
}

static inline dtn_vector_t dtn_splat(int32_t value)
{
    return _mm512_set1_epi32(value);
}

static inline dtn_vector_t dtn_subtract(dtn_vector_t a, dtn_vector_t b)
{
    return _mm512_sub_epi32(a, b);
}

/** Adds the totals of four vectors to four numbers. */
static inline void dtn_add_totals(const dtn_vector_t *v, int32_t *to)
{
    __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
    __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
    __m512i all = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
    __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
    __m128i last = _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
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
    __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    __m512i odd = _mm512_or_si512(even, dtn_splat(1));
    *multiplier = _mm512_permutex2var_epi32(dtn_load(words), even, dtn_load(words + DTN_LANES));
    *shift = _mm512_permutex2var_epi32(dtn_load(words), odd, dtn_load(words + DTN_LANES));
}

/** Writes factors; shifts are above 32. Where no sum is a tie, the half has the output's zero point with it. */
static inline void dtn_write_factors(dtn_vector_t multiplier, dtn_vector_t shift, const dtn_limits_t *limits,
                                     int32_t *factors)
{
    __m512i right = _mm512_sub_epi32(shift, dtn_splat(32));
    __m512i unit = _mm512_sllv_epi32(dtn_splat(1), right);
    __m512i half = _mm512_srli_epi32(unit, 1);
    if (!limits->ties) {
        half = _mm512_add_epi32(half, _mm512_sllv_epi32(dtn_splat(limits->zero_point), right));
    }
    dtn_keep(factors, multiplier);
    dtn_keep(factors + DTN_LANES, _mm512_srli_epi64(multiplier, 32));
    dtn_keep(factors + 2 * DTN_LANES, right);
    dtn_keep(factors + 3 * DTN_LANES, half);
    dtn_keep(factors + 4 * DTN_LANES, _mm512_sub_epi32(unit, dtn_splat(1)));
}

/** zero point + round(sums * multiplier / 2^(32 + right)), ties to even. The upper half of the product is rounded up at
 * ties; a tie is where nothing is left of it and of the lower half, and its result loses the last bit. */
static inline dtn_vector_t dtn_scale(dtn_vector_t sums, const int32_t *factors, const dtn_limits_t *limits,
                                     const bool ties)
{
    __m512i right = dtn_load(factors + 2 * DTN_LANES);
    __m512i even = _mm512_mul_epi32(sums, dtn_load(factors));
    __m512i odd = _mm512_mul_epi32(_mm512_srli_epi64(sums, 32), dtn_load(factors + DTN_LANES));
    __m512i top = _mm512_mask_shuffle_epi32(odd, 0x5555, even, _MM_PERM_DDBB);
    top = _mm512_add_epi32(top, dtn_load(factors + 3 * DTN_LANES));
    __m512i values = _mm512_srav_epi32(top, right);
    if (!ties) {
        return values;
    }
    __m512i low = _mm512_mask_shuffle_epi32(even, 0xAAAA, odd, _MM_PERM_CCAA);
    __mmask16 tie =
        _mm512_mask_testn_epi32_mask(_mm512_testn_epi32_mask(low, low), top, dtn_load(factors + 4 * DTN_LANES));
    values = _mm512_mask_and_epi32(values, tie, values, _mm512_set1_epi32(-2));
    return _mm512_add_epi32(values, _mm512_set1_epi32(limits->zero_point));
}

/** Stores the first `n` of a vector's numbers, at most all, as bytes held within limits. */
static inline void dtn_store_s8(int8_t *out, dtn_vector_t values, const dtn_limits_t *limits, int32_t n)
{
    __m128i bytes = _mm512_cvtsepi32_epi8(values);
    bytes = _mm_max_epi8(bytes, _mm_set1_epi8((char)limits->lo));
    bytes = _mm_min_epi8(bytes, _mm_set1_epi8((char)limits->hi));
    if (n >= DTN_LANES) {
        _mm_storeu_si128((__m128i *)(void *)out, bytes);
    } else {
        _mm_mask_storeu_epi8(out, (__mmask16)((1U << n) - 1U), bytes);
    }
}

/** The first `n` of two vectors' worth of bytes, at most all, as 16-bit numbers. */
static inline dtn_vector_t dtn_widen(const int8_t *from, int32_t n)
{
    if (n >= 2 * DTN_LANES) {
        return _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)from));
    }
    return _mm512_cvtepi8_epi16(_mm256_maskz_loadu_epi8((1U << n) - 1U, from));
}

/** The 16-bit numbers of `a` and `b` in turn, four of each at a time; the other half of them; and back again, from
 * 32-bit numbers to bytes. */
static inline dtn_vector_t dtn_zip_low(dtn_vector_t a, dtn_vector_t b)
{
    return _mm512_unpacklo_epi16(a, b);
}

static inline dtn_vector_t dtn_zip_high(dtn_vector_t a, dtn_vector_t b)
{
    return _mm512_unpackhi_epi16(a, b);
}

static inline void dtn_store_zipped_s8(int8_t *out, dtn_vector_t low, dtn_vector_t high, const dtn_limits_t *limits,
                                       int32_t n)
{
    __m256i bytes = _mm512_cvtsepi16_epi8(_mm512_packs_epi32(low, high));
    bytes = _mm256_max_epi8(bytes, _mm256_set1_epi8((char)limits->lo));
    bytes = _mm256_min_epi8(bytes, _mm256_set1_epi8((char)limits->hi));
    if (n >= 2 * DTN_LANES) {
        _mm256_storeu_si256((__m256i *)(void *)out, bytes);
    } else {
        _mm256_mask_storeu_epi8(out, (1U << n) - 1U, bytes);
    }
}
