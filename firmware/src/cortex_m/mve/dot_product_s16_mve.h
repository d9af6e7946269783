/**
 * @file
 * One row of int16 inputs by four rows of int8 weights, with vectors.
 */
#pragma once

#include "row_sums_s8_mve.h"

/*
 * Sums of a row of inputs with four rows of weights that fit 32 bits.
 *
 *   q0                    inputs
 *   q1, q2                weights of a row, in turn
 *   lr                    turns that are left
 */
static inline int32x4_t dtn_mve_row_sums_s16(const int16_t *x, const int8_t *const rows[4], size_t depth)
{
    const int8_t *a = rows[0];
    const int8_t *b = rows[1];
    const int8_t *c = rows[2];
    const int8_t *d = rows[3];
    int32_t sum_a = 0;
    int32_t sum_b = 0;
    int32_t sum_c = 0;
    int32_t sum_d = 0;
    __asm__ volatile("wlstp.16 lr, %[depth], 2f\n"
                     "1:\n"
                     "vldrh.16 q0, [%[x]], #16\n"
                     "vldrb.s16 q1, [%[a]], #8\n"
                     "vmladava.s16 %[sum_a], q0, q1\n"
                     "vldrb.s16 q2, [%[b]], #8\n"
                     "vmladava.s16 %[sum_b], q0, q2\n"
                     "vldrb.s16 q1, [%[c]], #8\n"
                     "vmladava.s16 %[sum_c], q0, q1\n"
                     "vldrb.s16 q2, [%[d]], #8\n"
                     "vmladava.s16 %[sum_d], q0, q2\n"
                     "letp lr, 1b\n"
                     "2:\n"
                     : [x] "+&r"(x), [a] "+&l"(a), [b] "+&l"(b), [c] "+&l"(c), [d] "+&l"(d), [sum_a] "+&Te"(sum_a),
                       [sum_b] "+&Te"(sum_b), [sum_c] "+&Te"(sum_c), [sum_d] "+&Te"(sum_d)
                     : [depth] "r"(depth)
                     : "q0", "q1", "q2", "lr", "memory");
    return dtn_mve_vector(sum_a, sum_b, sum_c, sum_d);
}

/** The same of rows that are `depth` apart. */
static inline int32x4_t dtn_mve_four_sums_s16(const int16_t *x, const int8_t *weights, size_t depth)
{
    const int8_t *const rows[] = {weights, weights + depth, weights + 2 * depth, weights + 3 * depth};
    return dtn_mve_row_sums_s16(x, rows, depth);
}
