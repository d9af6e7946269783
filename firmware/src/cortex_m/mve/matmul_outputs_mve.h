/**
 * @file
 * The outputs of rows by a block of channels, and short rows, for int8 and packed weights.
 */
#pragma once

#include "matmul_blocks_mve.h"
#include "predicate_clobber_mve.h"
#include "row_sums_s8_mve.h"
#include "vectors_mve.h"

/* Sums of a block's channels for each of three rows. */
typedef int32_t sums_t[DTN_CM_TRIPLE][DTN_CM_BLOCK];

/* Where four channels find their factors: side by side, or one for all four times. */
typedef struct {
    const int32_t *multipliers;
    const int32_t *shifts;
    size_t step; /* to the next four channels */
    int32_t shared[8];
} factors_t;

static inline void find_factors(const dtn_cm_block_t *block, factors_t *factors)
{
    const dtn_cm_scale_t *scale = block->scale;
    if (scale->step != 0) {
        factors->multipliers = scale->multipliers + block->first;
        factors->shifts = scale->shifts + block->first;
        factors->step = DTN_MVE_LANES;
        return;
    }
    vstrwq_s32(factors->shared, vdupq_n_s32(*scale->multipliers));
    vstrwq_s32(factors->shared + DTN_MVE_LANES, vdupq_n_s32(*scale->shifts));
    factors->multipliers = factors->shared;
    factors->shifts = factors->shared + DTN_MVE_LANES;
    factors->step = 0;
}

/* The numbers of all outputs; the factors are filled in later. */
static inline dtn_cm_lanes_t common_lanes(const dtn_cm_scale_t *scale)
{
    return (dtn_cm_lanes_t){.offset = scale->offset, .lo = vdupq_n_s32(scale->lo), .hi = vdupq_n_s32(scale->hi)};
}

/* Outputs of some channels for any shifts, from sums that have everything. */
static inline void store_general(const dtn_cm_block_t *block, size_t first, size_t count, const int32_t *sums,
                                 int8_t *output)
{
    for (size_t j = 0; j < count; j++) {
        dtn_cm_factor_t factor = dtn_cm_factor(block->scale, block->first + first + j);
        output[first + j] = dtn_cm_scaled(block->scale, &factor, (uint32_t)sums[j]);
    }
}

/* Three rows for any shifts. */
static inline void store_rows_general(const dtn_cm_block_t *block, sums_t sums, bool is_packed, int8_t *output,
                                      size_t pitch)
{
    for (size_t i = 0; i < DTN_CM_TRIPLE; i++) {
        for (size_t j = 0; j < block->count; j++) {
            sums[i][j] = dtn_cm_plus(is_packed ? sums[i][j] >> 4 : sums[i][j], block->starts[j]);
        }
        store_general(block, 0, block->count, sums[i], output + i * pitch);
    }
}

/* The sums of four channels; those of packed weights are 16 times as large. */
static inline int32x4_t four_of(const int32_t *sums, bool is_packed)
{
    const int32x4_t four = vldrwq_s32(sums);
    return is_packed ? vshrq_n_s32(four, 4) : four;
}

/* The sums of four channels, with the values that they start at unless they have them. */
static inline int32x4_t started(const int32_t *sums, bool is_packed, bool has_starts, int32x4_t starts)
{
    const int32x4_t four = four_of(sums, is_packed);
    return has_starts ? four : vaddq_s32(four, starts);
}

/* Three rows for shifts below 0. */
static inline __attribute__((always_inline)) void store_rows(const dtn_cm_block_t *block, sums_t sums, bool is_packed,
                                                             bool has_starts, int8_t *output, size_t pitch)
{
    /* Copies of everything, which no store to the output can change. */
    factors_t factors;
    find_factors(block, &factors);
    const size_t step = factors.step;
    const int32_t *multipliers = factors.multipliers;
    const int32_t *shifts = factors.shifts;
    const int32_t *starts = block->starts;
    dtn_cm_lanes_t lanes = common_lanes(block->scale);
    const int32_t *from = sums[0];
    int8_t *x = output;
    int8_t *y = x + pitch;
    int8_t *z = y + pitch;
    for (size_t left = block->count / DTN_MVE_LANES; left != 0; left--) {
        lanes.multipliers = vldrwq_s32(multipliers);
        lanes.shifts = vldrwq_s32(shifts);
        const int32x4_t four = vldrwq_s32(starts);
        vstrbq_s32(x, dtn_cm_scaled_lanes(started(from, is_packed, has_starts, four), &lanes));
        vstrbq_s32(y, dtn_cm_scaled_lanes(started(from + DTN_CM_BLOCK, is_packed, has_starts, four), &lanes));
        vstrbq_s32(z, dtn_cm_scaled_lanes(started(from + 2 * DTN_CM_BLOCK, is_packed, has_starts, four), &lanes));
        multipliers += step;
        shifts += step;
        starts += DTN_MVE_LANES;
        from += DTN_MVE_LANES;
        x += DTN_MVE_LANES;
        y += DTN_MVE_LANES;
        z += DTN_MVE_LANES;
    }
    if (block->count % DTN_MVE_LANES != 0) {
        const mve_pred16_t there = vctp32q(block->count % DTN_MVE_LANES);
        lanes.multipliers = vldrwq_z_s32(multipliers, there);
        lanes.shifts = vldrwq_z_s32(shifts, there);
        const int32x4_t four = vldrwq_z_s32(starts, there);
        for (size_t i = 0; i < DTN_CM_TRIPLE; i++) {
            int32x4_t sum = started(from + i * DTN_CM_BLOCK, is_packed, has_starts, four);
            vstrbq_p_s32(x + i * pitch, dtn_cm_scaled_lanes(sum, &lanes), there);
        }
    }
}

/* Numbers of four channels, which the loop over short rows reads from memory. */
typedef struct {
    int32_t multipliers[DTN_MVE_LANES];
    int32_t lo[DTN_MVE_LANES];
    int32_t hi[DTN_MVE_LANES];
    uint32_t depth;
} short_numbers_t;

/* The weights of four channels, and zeros behind them. */
typedef struct {
    int8x16_t a;
    int8x16_t b;
    int8x16_t c;
    int8x16_t d;
} four_rows_t;

/*
 * Four channels of short rows. Behind a row's end nothing is read, and the weights are 0 there. The weights of the four
 * channels, the starts of the sums and the shifts take six vector registers, which the compiler chooses.
 *
 *   r0, r8, r10, r12      sums of the four channels
 *   q7                    inputs, then the values of the four channels
 *   q6                    multipliers, then the lower limit, then the upper one
 *   lr                    rows that are left
 */
DTN_CM_ALONE static inline void four_channels(const four_rows_t *w, int32x4_t starts, int32x4_t shifts,
                                              const short_numbers_t *numbers, int32_t offset, const int8_t *x,
                                              size_t x_pitch, size_t rows, int8_t *to, size_t to_pitch)
{
    const int8x16_t a = w->a;
    const int8x16_t b = w->b;
    const int8x16_t c = w->c;
    const int8x16_t d = w->d;
    register size_t left __asm__("lr") = rows;
    __asm__ volatile("ldr r0, [%[numbers], #48]\n"
                     "vctp.8 r0\n"
                     "dls lr, lr\n"
                     "1:\n"
                     "vpst\n"
                     "vldrbt.8 q7, [%[x]]\n"
                     "add %[x], %[x], %[x_pitch]\n"
                     "vmladav.s8 r0, q7, %q[a]\n"
                     "vmladav.s8 r8, q7, %q[b]\n"
                     "vmladav.s8 r10, q7, %q[c]\n"
                     "vmladav.s8 r12, q7, %q[d]\n"
                     "vmov q7[2], q7[0], r0, r10\n"
                     "vmov q7[3], q7[1], r8, r12\n"
                     "vldrw.32 q6, [%[numbers]]\n"
                     "vadd.i32 q7, q7, %q[starts]\n" DTN_CM_TIMES("q7", "q6", "q6") "vldrw.32 q6, [%[numbers], #16]\n"
                                                                                    "vrshl.s32 q7, q7, %q[shifts]\n"
                                                                                    "vadd.i32 q7, q7, %[offset]\n"
                                                                                    "vmax.s32 q7, q7, q6\n"
                                                                                    "vldrw.32 q6, [%[numbers], #32]\n"
                                                                                    "vmin.s32 q7, q7, q6\n"
                                                                                    "vstrb.32 q7, [%[to]]\n"
                                                                                    "add %[to], %[to], %[to_pitch]\n"
                                                                                    "le lr, 1b\n"
                     : [x] "+&r"(x), [to] "+&l"(to), "+&r"(left)
                     : [a] "w"(a), [b] "w"(b), [c] "w"(c), [d] "w"(d), [starts] "w"(starts), [shifts] "w"(shifts),
                       [numbers] "r"(numbers), [offset] "r"(offset), [x_pitch] "r"(x_pitch), [to_pitch] "r"(to_pitch)
                     : "r0", "r8", "r10", "r12", "q6", "q7", DTN_CM_PREDICATE "cc", "memory");
}
