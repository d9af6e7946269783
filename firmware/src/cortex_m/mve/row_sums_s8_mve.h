/**
 * @file
 * One row of inputs by four rows of weights, with vectors.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <arm_mve.h>

/** Channels in the lanes of a vector. */
enum { DTN_MVE_LANES = 4 };

/* Four numbers as a vector. */
static inline int32x4_t dtn_mve_vector(int32_t a, int32_t b, int32_t c, int32_t d)
{
    int32x4_t vector;
    __asm__("vmov %q[vector][2], %q[vector][0], %[a], %[c]\n"
            "vmov %q[vector][3], %q[vector][1], %[b], %[d]\n"
            : [vector] "=&w"(vector)
            : [a] "r"(a), [b] "r"(b), [c] "r"(c), [d] "r"(d));
    return vector;
}

/*
 * One row of inputs by four rows of weights, `pitch` apart: sums that begin at those of `starts`.
 *
 *   q0                    inputs
 *   q1, q2                weights of a row, in turn
 *   lr                    turns that are left
 */
static inline int32x4_t dtn_mve_four_sums(const int8_t *x, const int8_t *weights, size_t pitch, size_t depth,
                                          const int32_t starts[DTN_MVE_LANES])
{
    const int8_t *b = weights + pitch;
    const int8_t *c = b + pitch;
    const int8_t *d = c + pitch;
    int32_t sum_a = starts[0];
    int32_t sum_b = starts[1];
    int32_t sum_c = starts[2];
    int32_t sum_d = starts[3];
    __asm__ volatile("wlstp.8 lr, %[depth], 2f\n"
                     "1:\n"
                     "vldrb.8 q0, [%[x]], #16\n"
                     "vldrb.8 q1, [%[a]], #16\n"
                     "vmladava.s8 %[sum_a], q0, q1\n"
                     "vldrb.8 q2, [%[b]], #16\n"
                     "vmladava.s8 %[sum_b], q0, q2\n"
                     "vldrb.8 q1, [%[c]], #16\n"
                     "vmladava.s8 %[sum_c], q0, q1\n"
                     "vldrb.8 q2, [%[d]], #16\n"
                     "vmladava.s8 %[sum_d], q0, q2\n"
                     "letp lr, 1b\n"
                     "2:\n"
                     : [x] "+&r"(x), [a] "+&r"(weights), [b] "+&r"(b), [c] "+&r"(c), [d] "+&r"(d),
                       [sum_a] "+&Te"(sum_a), [sum_b] "+&Te"(sum_b), [sum_c] "+&Te"(sum_c), [sum_d] "+&Te"(sum_d)
                     : [depth] "r"(depth)
                     : "q0", "q1", "q2", "lr", "memory");
    return dtn_mve_vector(sum_a, sum_b, sum_c, sum_d);
}
