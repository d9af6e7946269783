/**
 * @file
 * Four channels of a depthwise convolution in the lanes: what they begin with, and three outputs of them stored.
 */
#pragma once

#include "../inner_loops.h"
#include "vectors_mve.h"

/* Channels in the lanes, the largest number of taps, and adjacent outputs that share inputs. */
enum { LANES = 4, MOST_TAPS = 49, TRIPLE = 3 };

/* Four channels or fewer, with what does not change from pixel to pixel. */
typedef struct {
    dtn_cm_lanes_t lanes;
    int32x4_t bias;
    const dtn_cm_windows_t *p;
    mve_pred16_t there;                /* which lanes have a channel */
    bool is_full;                      /* all have */
    bool is_shared;                    /* all have the same input */
    int8_t weights[MOST_TAPS * LANES]; /* of each tap, side by side */
} chunk_t;

/* Sums of three outputs. */
typedef struct {
    int32x4_t a;
    int32x4_t b;
    int32x4_t c;
} sums_t;

/* The bias, and what the input's offset adds to the sums of so many taps. */
static inline int32x4_t starts_of(const chunk_t *chunk, const int8_t *weights, int32_t taps)
{
    int32x4_t sums = vdupq_n_s32(0);
    for (; taps > 0; taps--) {
        sums = vaddq_s32(sums, vldrbq_s32(weights));
        weights += LANES;
    }
    return vmlaq_n_s32(chunk->bias, sums, chunk->p->in_offset);
}

/*
 * Stores three outputs `step` apart. Assembler, since GCC loads many numbers again.
 *
 *   q3                    multipliers, then the lower limit
 *   q4, q5, q6            free for products; then q4 has the upper limit
 *   q7                    shifts
 */
static inline void store_three(const dtn_cm_lanes_t *lanes, sums_t sums, int8_t *to, size_t step)
{
    int32_t offset = lanes->offset;
    /* clang-format off */
    __asm__ volatile(
        "vldrw.32 q3, [%[lanes], %[multipliers]]\n"
        "vldrw.32 q7, [%[lanes], %[shifts]]\n"
        DTN_CM_TIMES("%q[a]", "q3", "q4")
        DTN_CM_TIMES("%q[b]", "q3", "q5")
        DTN_CM_TIMES("%q[c]", "q3", "q6")
        "vldrw.32 q3, [%[lanes], %[lo]]\n"
        "vldrw.32 q4, [%[lanes], %[hi]]\n"
        "vrshl.s32 %q[a], %q[a], q7\n"
        "vrshl.s32 %q[b], %q[b], q7\n"
        "vadd.i32 %q[a], %q[a], %[offset]\n"
        "vrshl.s32 %q[c], %q[c], q7\n"
        "vadd.i32 %q[b], %q[b], %[offset]\n"
        "vmax.s32 %q[a], %q[a], q3\n"
        "vadd.i32 %q[c], %q[c], %[offset]\n"
        "vmin.s32 %q[a], %q[a], q4\n"
        "vstrb.32 %q[a], [%[to]]\n"
        "add %[to], %[to], %[step]\n"
        "vmax.s32 %q[b], %q[b], q3\n"
        "vmin.s32 %q[b], %q[b], q4\n"
        "vstrb.32 %q[b], [%[to]]\n"
        "add %[to], %[to], %[step]\n"
        "vmax.s32 %q[c], %q[c], q3\n"
        "vmin.s32 %q[c], %q[c], q4\n"
        "vstrb.32 %q[c], [%[to]]\n"
        : [a] "+&w"(sums.a), [b] "+&w"(sums.b), [c] "+&w"(sums.c), [to] "+&l"(to)
        : [step] "r"(step), [lanes] "r"(lanes), [offset] "r"(offset),
          [multipliers] "i"(offsetof(dtn_cm_lanes_t, multipliers)), [shifts] "i"(offsetof(dtn_cm_lanes_t, shifts)),
          [lo] "i"(offsetof(dtn_cm_lanes_t, lo)), [hi] "i"(offsetof(dtn_cm_lanes_t, hi))
        : "q3", "q4", "q5", "q6", "q7", "memory");
    /* clang-format on */
}
