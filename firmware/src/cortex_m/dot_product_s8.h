/**
 * @file
 * Sums of products: one row of inputs with four rows of weights at once, so that each input that is loaded serves four
 * products. Where two rows of inputs meet the same weights, matmul_row_pairs_s8_portable.c needs fewer steps.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/** Most products under one sum: of numbers below 256 each, so that 32 bits hold it. */
#define DTN_CM_MAX_PRODUCTS 32768

/** Rows of weights that one row of inputs is multiplied with at once. */
enum { DTN_CM_ROWS = 4 };

/** The rows of weights of `channels` channels from `first` on, at a distance of `pitch`; after the last, the last
 * again. */
static inline void dtn_cm_rows_of(const int8_t *weights, size_t pitch, size_t first, size_t channels,
                                  const int8_t *rows[DTN_CM_ROWS])
{
    for (size_t j = 0; j < DTN_CM_ROWS; j++) {
        rows[j] = weights + (first + j < channels ? first + j : channels - 1) * pitch;
    }
}

/**
 * Adds the sums of (input + offset) * weight, `count` elements from element `at` of each row of weights on.
 *
 * The inner sums are signed, since compilers split unsigned ones into more additions. They are added to the results in
 * unsigned arithmetic, where overflow is defined.
 */
static inline void dtn_cm_add_dots(const int8_t *x, int32_t offset, const int8_t *const rows[DTN_CM_ROWS], size_t at,
                                   size_t count, uint32_t sums[DTN_CM_ROWS])
{
    const int8_t *wa = rows[0] + at;
    const int8_t *wb = rows[1] + at;
    const int8_t *wc = rows[2] + at;
    const int8_t *wd = rows[3] + at;
    int32_t a = 0;
    int32_t b = 0;
    int32_t c = 0;
    int32_t d = 0;
    for (size_t k = 0; k < count; k++) {
        int32_t input = x[k] + offset;
        a += input * wa[k];
        b += input * wb[k];
        c += input * wc[k];
        d += input * wd[k];
    }
    sums[0] += (uint32_t)a;
    sums[1] += (uint32_t)b;
    sums[2] += (uint32_t)c;
    sums[3] += (uint32_t)d;
}
