/**
 * @file
 * Sums of products: the inner loops of matrix products and convolutions.
 *
 * Four sums are made at once, so that each number loaded serves two or four products, in four steps per turn. A sum
 * starts at 0 and has at most DTN_CM_MAX_PRODUCTS terms of numbers below 256 each, so that 32 bits hold it. It is
 * signed since compilers take sums apart whose overflow is defined, and then add in vain. Callers use the sums one by
 * one: if they are stored side by side, compilers for cores with vectors put them together in every step.
 */
#ifndef DTN_DOT_H
#define DTN_DOT_H

#include <stddef.h>
#include <stdint.h>

/** Most products under one sum. */
#define DTN_CM_MAX_PRODUCTS 32768

/** Rows of weights that one row of inputs is multiplied with at once. */
enum { DTN_CM_ROWS = 4 };

/** Sums of one row of inputs with each of four rows of weights. */
typedef struct {
    int32_t of[DTN_CM_ROWS];
} dtn_cm_dots_t;

/** The rows of weights of `channels` channels from `first` on, `pitch` apart; behind the last, the last again. */
static inline void dtn_cm_rows_of(const int8_t *weights, size_t pitch, size_t first, size_t channels,
                                  const int8_t *rows[DTN_CM_ROWS])
{
    for (size_t j = 0; j < DTN_CM_ROWS; j++) {
        rows[j] = weights + (first + j < channels ? first + j : channels - 1) * pitch;
    }
}

static inline void dtn_cm_multiply_add(dtn_cm_dots_t *sums, int32_t x, int8_t a, int8_t b, int8_t c, int8_t d)
{
    sums->of[0] += x * a;
    sums->of[1] += x * b;
    sums->of[2] += x * c;
    sums->of[3] += x * d;
}

/** Sums of (input + offset) * weight, `count` elements from element `at` of each row of weights on. */
static inline dtn_cm_dots_t dtn_cm_dot(const int8_t *x, int32_t offset, const int8_t *const rows[DTN_CM_ROWS],
                                       size_t at, size_t count)
{
    const int8_t *a = rows[0] + at;
    const int8_t *b = rows[1] + at;
    const int8_t *c = rows[2] + at;
    const int8_t *d = rows[3] + at;
    dtn_cm_dots_t sums = {{0, 0, 0, 0}};
    for (size_t turns = count / 4; turns != 0; turns--) {
        dtn_cm_multiply_add(&sums, x[0] + offset, a[0], b[0], c[0], d[0]);
        dtn_cm_multiply_add(&sums, x[1] + offset, a[1], b[1], c[1], d[1]);
        dtn_cm_multiply_add(&sums, x[2] + offset, a[2], b[2], c[2], d[2]);
        dtn_cm_multiply_add(&sums, x[3] + offset, a[3], b[3], c[3], d[3]);
        x += 4;
        a += 4;
        b += 4;
        c += 4;
        d += 4;
    }
    for (size_t rest = count % 4; rest != 0; rest--) {
        dtn_cm_multiply_add(&sums, *x++ + offset, *a++, *b++, *c++, *d++);
    }
    return sums;
}

/** Adds the sums of one part of the rows to those of the others, in unsigned arithmetic, where overflow is defined. */
static inline void dtn_cm_add_dots(const dtn_cm_dots_t *dots, uint32_t sums[DTN_CM_ROWS])
{
    for (size_t j = 0; j < DTN_CM_ROWS; j++) {
        sums[j] += (uint32_t)dots->of[j];
    }
}

#endif /* DTN_DOT_H */
