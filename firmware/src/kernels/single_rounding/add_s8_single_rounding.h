/**
 * @file
 * Sums of two scaled operands, rounded once, element by element: each kind of core may have its own.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/**
 * (a * a_factor + b * b_factor + start) / 2^(16 + shift) for factors in two parts, upper * 2^16 + lower.
 *
 * Upper and lower parts are summed apart, in 32 bits each: operands have 8 bits, and lower parts of factors 16.
 */
typedef struct {
    int32_t a_upper;
    int32_t a_lower;
    int32_t b_upper;
    int32_t b_lower;
    int32_t start_upper;
    int32_t start_lower;
    int32_t shift; /**< 1 to 30 */
    int32_t zero_point;
    int32_t lo;
    int32_t hi;
} dtn_sr_sum_t;

/** add_s8_single_rounding.c: sums of `count` elements; the output may be an input. */
void dtn_sr_add(const dtn_sr_sum_t *sum, const int8_t *a, const int8_t *b, int8_t *out, size_t count);
