#include "../packed_weights.h"
/* Both weights of each byte of a packed row. %[v] is unused: the channels share bytes. */
#define DTN_CM_UNPACK(low, high)                                                                                       \
    "vshl.i8 " low ", " high ", #4\n"                                                                                  \
    "vrshr.s8 " high ", " high ", #4\n"                                                                                \
    "vshr.s8 " low ", " low ", #4\n"
#define DTN_CM_LOAD_TWO                                                                                                \
    "vldrb.8 q2, [%[w]]\n"                                                                                             \
    "vpst\n"                                                                                                           \
    "vldrbt.8 q3, [%[w], #16]\n" DTN_CM_UNPACK("q0", "q2") DTN_CM_UNPACK("q1", "q3")
#define DTN_CM_LOAD_THREE                                                                                              \
    "vldrb.8 q3, [%[w]]\n"                                                                                             \
    "vldrb.8 q4, [%[w], #16]\n"                                                                                        \
    "vpst\n"                                                                                                           \
    "vldrbt.8 q5, [%[w], #32]\n" DTN_CM_UNPACK("q0", "q3") DTN_CM_UNPACK("q1", "q4") DTN_CM_UNPACK("q2", "q5")

#include "matmul_padded_rows_mve.h"
#include "matmul_pairs_mve.h"

/* ---- Sums, 16 times as large ---- */

/*
 * Three rows of inputs by `pairs` packed rows of weights, all of more than 16 elements: as matmul_pairs_mve.h has it,
 * with as many instructions per turn. A packed row is loaded once, and its first row of weights is shifted out of it.
 *
 *   r1 x, r3 y, r5 z      rows of inputs
 *   r6 w                  packed weights
 *   r0, r2                sums a and b of x; r4, r8 of y; r10, r12 of z
 *   r11 to, lr            where the sums go; the turns that are left
 *   q0, q1                elements of both rows, and of the first
 *   q2, q3                inputs
 */
static void add_packed(const int8_t *const rows[DTN_CM_TRIPLE], const int8_t *weights, size_t depth, size_t pairs,
                       int32_t *sums)
{
    /* How far a turn of rows has gone: from there back to the start of a row, and to that of the next. */
    const size_t gone = (depth + 15U) / 16U * 16U;
    const int32_t end = (int32_t)(uintptr_t)(sums + 2 * pairs);
    const int32x4_t numbers = dtn_mve_vector((int32_t)gone, (int32_t)depth - 16, (int32_t)(gone - depth), end);
    /* Behind the last call, which would take the registers. */
    register const int8_t *x __asm__("r1") = rows[0];
    register const int8_t *y __asm__("r3") = rows[1];
    register const int8_t *z __asm__("r5") = rows[2];
    register const int8_t *w __asm__("r6") = weights;
    register int32_t *to __asm__("r11") = sums;
    __asm__ volatile(".p2align 2\n"
                     "1:\n"
                     "vmov.32 lr, %q[numbers][1]\n"
                     "vldrb.8 q0, [r6], #16\n"
                     "vldrb.8 q2, [r1], #16\n"
                     "vshl.i8 q1, q0, #4\n"
                     "vmladav.s8 r2, q0, q2\n"
                     "vldrb.8 q3, [r3], #16\n"
                     "vmladav.s8 r0, q1, q2\n"
                     "vldrb.8 q2, [r5], #16\n"
                     "vmladav.s8 r8, q0, q3\n"
                     "vmladav.s8 r4, q1, q3\n"
                     "vmladav.s8 r12, q0, q2\n"
                     "vmladav.s8 r10, q1, q2\n"
                     "dlstp.8 lr, lr\n"
                     "2:\n"
                     "vldrb.8 q0, [r6], #16\n"
                     "vldrb.8 q2, [r1], #16\n"
                     "vshl.i8 q1, q0, #4\n"
                     "vmladava.s8 r2, q0, q2\n"
                     "vldrb.8 q3, [r3], #16\n"
                     "vmladava.s8 r0, q1, q2\n"
                     "vldrb.8 q2, [r5], #16\n"
                     "vmladava.s8 r8, q0, q3\n"
                     "vmladava.s8 r4, q1, q3\n"
                     "vmladava.s8 r12, q0, q2\n"
                     "vmladava.s8 r10, q1, q2\n"
                     "letp lr, 2b\n"
                     /* The sum b becomes 16 times the sum of the second row. */
                     "sub r2, r2, r0, asr #4\n"
                     "sub r8, r8, r4, asr #4\n"
                     "sub r12, r12, r10, asr #4\n" DTN_MVE_PAIR_END("subs r6, r6, r2\n")
                     : "+&r"(x), "+&r"(y), "+&r"(z), "+&r"(w), "+&r"(to)
                     : [numbers] "w"(numbers)
                     : "r0", "r2", "r4", "r8", "r10", "r12", "lr", "q0", "q1", "q2", "q3", "cc", "memory");
}

/* One row of inputs by two packed rows of weights, which may be the same. */
static inline int32x4_t four_sums(const int8_t *x, const int8_t *w, const int8_t *v, size_t depth)
{
    int32_t a = 0;
    int32_t b = 0;
    int32_t c = 0;
    int32_t d = 0;
    __asm__ volatile(
        "wlstp.8 lr, %[depth], 2f\n"
        "1:\n"
        "vldrb.8 q1, [%[w]], #16\n"
        "vldrb.8 q0, [%[x]], #16\n"
        "vshl.i8 q2, q1, #4\n"
        "vmladava.s8 %[b], q0, q1\n"
        "vldrb.8 q1, [%[v]], #16\n"
        "vmladava.s8 %[a], q0, q2\n"
        "vshl.i8 q2, q1, #4\n"
        "vmladava.s8 %[d], q0, q1\n"
        "vmladava.s8 %[c], q0, q2\n"
        "letp lr, 1b\n"
        "2:\n"
        "sub %[b], %[b], %[a], asr #4\n"
        "sub %[d], %[d], %[c], asr #4\n"
        : [x] "+&r"(x), [w] "+&r"(w), [v] "+&r"(v), [a] "+&Te"(a), [b] "+&Te"(b), [c] "+&Te"(c), [d] "+&Te"(d)
        : [depth] "r"(depth)
        : "q0", "q1", "q2", "lr", "memory");
    return dtn_mve_vector(a, b, c, d);
}

/* ---- Outputs ---- */

void dtn_cm_three_rows_s4(const dtn_cm_block_t *block, const int8_t *const rows[DTN_CM_TRIPLE], const int32_t *more,
                          int8_t *output, size_t pitch)
{
    (void)more; /* weights have no offset */
    sums_t sums;
    add_packed(rows, block->weights, block->depth, dtn_cm_packed_rows(block->count), sums[0]);
    if (block->scale->largest_shift < 0) {
        store_rows(block, sums, true, false, output, pitch);
    } else {
        store_rows_general(block, sums, true, output, pitch);
    }
}

/* One row with shifts that are not all below 0. */
static void one_row_general(const dtn_cm_block_t *block, const int8_t *row, int8_t *output)
{
    const int8_t *w = block->weights;
    for (size_t j = 0; j < block->count; j += DTN_CM_PACKED) {
        const size_t count = block->count - j < DTN_CM_PACKED ? 1 : DTN_CM_PACKED;
        int32_t sums[DTN_MVE_LANES];
        vstrwq_s32(sums, vshrq_n_s32(four_sums(row, w, w, block->depth), 4));
        for (size_t i = 0; i < count; i++) {
            sums[i] = dtn_cm_plus(sums[i], block->starts[j + i]);
        }
        store_general(block, j, count, sums, output);
        w += block->depth;
    }
}

void dtn_cm_one_row_s4(const dtn_cm_block_t *block, const int8_t *row, int8_t *output)
{
    const dtn_cm_scale_t *scale = block->scale;
    if (scale->largest_shift >= 0) {
        one_row_general(block, row, output);
        return;
    }
    const int32_t *multipliers = scale->multipliers;
    const int32_t *shifts = scale->shifts;
    const int32_t *starts = block->starts;
    const int8_t *weights = block->weights;
    const size_t depth = block->depth;
    const bool is_shared = scale->step == 0;
    size_t left = block->count;
    dtn_cm_lanes_t lanes = common_lanes(scale);
    if (is_shared) {
        lanes.multipliers = vdupq_n_s32(*multipliers);
        lanes.shifts = vdupq_n_s32(*shifts);
    } else {
        multipliers += block->first;
        shifts += block->first;
    }
    for (; left >= DTN_MVE_LANES; left -= DTN_MVE_LANES) {
        const int32x4_t sums = vshrq_n_s32(four_sums(row, weights, weights + depth, depth), 4);
        if (!is_shared) {
            lanes.multipliers = vldrwq_s32(multipliers);
            lanes.shifts = vldrwq_s32(shifts);
            multipliers += DTN_MVE_LANES;
            shifts += DTN_MVE_LANES;
        }
        vstrbq_s32(output, dtn_cm_scaled_lanes(vaddq_s32(sums, vldrwq_s32(starts)), &lanes));
        weights += DTN_CM_PACKED * depth;
        starts += DTN_MVE_LANES;
        output += DTN_MVE_LANES;
    }
    if (left != 0) {
        const mve_pred16_t there = vctp32q((uint32_t)left);
        const int8_t *second = left > DTN_CM_PACKED ? weights + depth : weights;
        const int32x4_t sums = vshrq_n_s32(four_sums(row, weights, second, depth), 4);
        if (!is_shared) {
            lanes.multipliers = vldrwq_z_s32(multipliers, there);
            lanes.shifts = vldrwq_z_s32(shifts, there);
        }
        vstrbq_p_s32(output, dtn_cm_scaled_lanes(vaddq_s32(sums, vldrwq_z_s32(starts, there)), &lanes), there);
    }
}

/* ---- Short rows: the weights of four channels stay in registers ---- */

/* The weights of a channel, and zeros behind them. */
static inline int8x16_t weights_of(const dtn_cm_block_t *block, size_t channel, mve_pred16_t within)
{
    const int8x16_t both = vldrbq_z_s8(block->weights + channel / DTN_CM_PACKED * block->depth, within);
    return channel % DTN_CM_PACKED == 0 ? vshrq_n_s8(vshlq_n_s8(both, 4), 4) : vrshrq_n_s8(both, 4);
}

void dtn_cm_short_rows_s4(const dtn_cm_block_t *block, const int8_t *input, size_t input_pitch, size_t rows,
                          int8_t *output, size_t output_pitch)
{
    factors_t factors;
    find_factors(block, &factors);
    const mve_pred16_t within = vctp8q((uint32_t)block->depth);
    short_numbers_t numbers = {.depth = (uint32_t)block->depth};
    vstrwq_s32(numbers.lo, vdupq_n_s32(block->scale->lo));
    vstrwq_s32(numbers.hi, vdupq_n_s32(block->scale->hi));
    for (size_t j = 0; j < block->count; j += DTN_MVE_LANES) {
        /* Behind the last four channels less than four are left: they are made with those before once more. */
        const size_t first = block->count - j < DTN_MVE_LANES ? block->count - DTN_MVE_LANES : j;
        const size_t at = factors.step == 0 ? 0 : first;
        const four_rows_t w = {weights_of(block, first, within), weights_of(block, first + 1, within),
                               weights_of(block, first + 2, within), weights_of(block, first + 3, within)};
        vstrwq_s32(numbers.multipliers, vldrwq_s32(factors.multipliers + at));
        four_channels(&w, vldrwq_s32(block->starts + first), vldrwq_s32(factors.shifts + at), &numbers,
                      block->scale->offset, input, input_pitch, rows, output + first, output_pitch);
    }
}

/* ---- Padded rows: the weights of two channels stay in registers ---- */

void dtn_cm_padded_rows_s4(const dtn_cm_block_t *block, const int8_t *input, size_t rows, int8_t *output,
                           size_t output_pitch)
{
    padded_rows(block, block->depth, input, rows, output, output_pitch);
}

/* ---- The product ---- */

static void multiply_block(const dtn_cm_product_t *p, const dtn_cm_block_t *block)
{
    int8_t *output = p->output + block->first;
    if (dtn_cm_takes_short_rows(block)) {
        dtn_cm_short_rows_s4(block, p->input, p->input_pitch, p->rows, output, p->output_pitch);
        return;
    }
    if (p->rows >= DTN_CM_PADDED_ROWS / 2 && dtn_cm_takes_padded_rows(block)) {
        multiply_padded(p, block, block->depth);
        return;
    }
    size_t row = 0;
    if (dtn_cm_takes_three_rows(block)) {
        for (; row + DTN_CM_TRIPLE <= p->rows; row += DTN_CM_TRIPLE) {
            const int8_t *x = p->input + row * p->input_pitch;
            const int8_t *const rows[] = {x, x + p->input_pitch, x + 2 * p->input_pitch};
            dtn_cm_three_rows_s4(block, rows, NULL, output + row * p->output_pitch, p->output_pitch);
        }
    }
    for (; row < p->rows; row++) {
        dtn_cm_one_row_s4(block, p->input + row * p->input_pitch, output + row * p->output_pitch);
    }
}

void dtn_cm_multiply_s4(const dtn_cm_product_t *p)
{
    /* A single row needs no memory for sums. */
    const size_t most = p->rows == 1 ? p->channels : DTN_CM_BLOCK;
    for (size_t first = 0; first < p->channels; first += most) {
        const size_t left = p->channels - first;
        const dtn_cm_block_t block = {
            .weights = p->weights + first / DTN_CM_PACKED * p->depth,
            .starts = p->bias + first,
            .depth = p->depth,
            .first = first,
            .count = left < most ? left : most,
            .scale = &p->scale,
        };
        multiply_block(p, &block);
    }
}
