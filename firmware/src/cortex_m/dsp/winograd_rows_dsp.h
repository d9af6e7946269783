/**
 * @file
 * The rows of two tiles by Winograd's algorithm (winograd.h), by DSP instructions. Other processors compute the same in
 * C.
 *
 * A row is six words of two input channels, which are multiplied by B. With a = d4 - d2 and b = d3 - d1:
 *
 *   t0 = 4 (d0 - d2) + a                   t3 = a + 2 b
 *   t1 = (d4 - 4 d2) + (d3 - 4 d1)         t4 = a - 2 b
 *   t2 = (d4 - 4 d2) - (d3 - 4 d1)         t5 = d5 - d3 - 4 b
 *
 *   r4 to r8, r10   d0 to d5, then t0 (until it is stored) to t5
 *   r11             a
 *   r0, r1          the row of the first tile, and from there to that of the second
 *   r2              rows that are left of a word
 *   r3, lr, r12     the results of both tiles, and from a position to the next
 *
 *   sp + 0 words that are left, 4 results of the word's first row, 8 saved registers, 40 from a position to the next
 *
 * As in loops_dsp.h the function never touches r9.
 */
#pragma once

#include "../winograd.h"
#include "instructions_dsp.h"
#include "loops_dsp.h"

/** Columns of inputs that two tiles have, and words of two input channels from one to the next. */
enum {
    DTN_DSP_TILE_COLUMNS = 2 * DTN_CM_TILE_INPUTS,
    DTN_DSP_TILE_WORD = DTN_CM_TILE_INPUTS * DTN_DSP_TILE_COLUMNS,
};

/** Six numbers of two channels. */
typedef struct {
    uint32_t at[DTN_CM_TILE_INPUTS];
} dtn_dsp_six_t;

static inline uint32_t dtn_dsp_four_times(uint32_t x)
{
    x = dtn_dsp_add_halves(x, x);
    return dtn_dsp_add_halves(x, x);
}

/** B' times six numbers. */
static inline dtn_dsp_six_t dtn_dsp_transformed(dtn_dsp_six_t d)
{
    dtn_dsp_six_t t;
    const uint32_t a = dtn_dsp_subtract_halves(d.at[4], d.at[2]);
    uint32_t b = dtn_dsp_subtract_halves(d.at[3], d.at[1]);
    b = dtn_dsp_add_halves(b, b);
    t.at[0] = dtn_dsp_add_halves(dtn_dsp_four_times(dtn_dsp_subtract_halves(d.at[0], d.at[2])), a);
    t.at[3] = dtn_dsp_add_halves(a, b);
    t.at[4] = dtn_dsp_subtract_halves(a, b);
    t.at[5] = dtn_dsp_subtract_halves(dtn_dsp_subtract_halves(dtn_dsp_subtract_halves(d.at[5], d.at[3]), b), b);
    const uint32_t c = dtn_dsp_subtract_halves(d.at[4], dtn_dsp_four_times(d.at[2]));
    const uint32_t e = dtn_dsp_subtract_halves(d.at[3], dtn_dsp_four_times(d.at[1]));
    t.at[1] = dtn_dsp_add_halves(c, e);
    t.at[2] = dtn_dsp_subtract_halves(c, e);
    return t;
}

#if defined(__ARM_FEATURE_DSP)

/* clang-format off */

/* Transforms a row, and stores it from `to` on, which moves on by six positions. */
#define DTN_DSP_TILE_ROW_OF_SIX(to) \
    "ssub16 r4, r4, r6\n" \
    "sadd16 r4, r4, r4\n" \
    "sadd16 r4, r4, r4\n" \
    "ssub16 r11, r8, r6\n" /* a */ \
    "sadd16 r4, r4, r11\n" /* t0 */ \
    "str r4, [" to "]\n" \
    "ssub16 r4, r7, r5\n" \
    "ssub16 r10, r10, r7\n" \
    "sadd16 r4, r4, r4\n" /* 2 b */ \
    "sadd16 r6, r6, r6\n" \
    "sadd16 r5, r5, r5\n" \
    "sadd16 r6, r6, r6\n" /* 4 d2 */ \
    "sadd16 r5, r5, r5\n" /* 4 d1 */ \
    "ssub16 r10, r10, r4\n" \
    "ssub16 r8, r8, r6\n" \
    "ssub16 r7, r7, r5\n" \
    "sadd16 r5, r8, r7\n" /* t1 */ \
    "ssub16 r6, r8, r7\n" /* t2 */ \
    "sadd16 r7, r11, r4\n" /* t3 */ \
    "ssub16 r8, r11, r4\n" /* t4 */ \
    "ssub16 r10, r10, r4\n" /* t5 */ \
    "str r5, [" to ", r12]\n" \
    "str r6, [" to ", r12, lsl #1]\n" \
    "add " to ", " to ", r12, lsl #1\n" \
    "add " to ", " to ", r12\n" \
    "str r7, [" to "]\n" \
    "str r8, [" to ", r12]\n" \
    "str r10, [" to ", r12, lsl #1]\n" \
    "add " to ", " to ", r12, lsl #1\n" \
    "add " to ", " to ", r12\n"

#define DTN_DSP_TILE_ROWS \
    "push {r4, r5, r6, r7, r8, r10, r11, lr}\n" \
    "push {r2, r3}\n" \
    "ldr r12, [sp, #40]\n" \
    "1:\n" \
    "mov r2, #6\n" \
    "add lr, r3, #4\n" \
    "2:\n" \
    "ldm r0, {r4, r5, r6, r7, r8, r10}\n" \
    DTN_DSP_TILE_ROW_OF_SIX("r3") \
    "add r4, r0, r1\n" \
    "ldm r4, {r4, r5, r6, r7, r8, r10}\n" \
    DTN_DSP_TILE_ROW_OF_SIX("lr") \
    "add r0, r0, #48\n" \
    "subs r2, r2, #1\n" \
    "bne 2b\n" \
    "ldrd r2, r3, [sp]\n" \
    "add r3, r3, #8\n" \
    "subs r2, r2, #1\n" \
    "strd r2, r3, [sp]\n" \
    "bne 1b\n" \
    "add sp, sp, #8\n" \
    "pop {r4, r5, r6, r7, r8, r10, r11, pc}\n"

/* clang-format on */

/**
 * Transforms the rows of `words` words of input channels, 1 or more. The second tile's columns are `second` bytes
 * behind those of the first. Results are two words, of both tiles, `pitch` bytes from a position to the next.
 */
DTN_DSP_NAKED static void dtn_dsp_tile_rows(const uint32_t *columns DTN_DSP_PARAMETER, size_t second DTN_DSP_PARAMETER,
                                            size_t words DTN_DSP_PARAMETER, uint32_t *tiles DTN_DSP_PARAMETER,
                                            size_t pitch DTN_DSP_PARAMETER)
{
    __asm__(DTN_DSP_TILE_ROWS);
}

#else

static inline void dtn_dsp_tile_rows(const uint32_t *columns, size_t second, size_t words, uint32_t *tiles,
                                     size_t pitch)
{
    for (; words != 0; words--) {
        for (size_t i = 0; i < DTN_CM_TILE_INPUTS; i++) {
            for (size_t tile = 0; tile < 2; tile++) {
                dtn_dsp_six_t row;
                memcpy(&row, columns + tile * (second / sizeof *columns), sizeof row);
                row = dtn_dsp_transformed(row);
                for (size_t j = 0; j < DTN_CM_TILE_INPUTS; j++) {
                    tiles[(i * DTN_CM_TILE_INPUTS + j) * (pitch / sizeof *tiles) + tile] = row.at[j];
                }
            }
            columns += DTN_DSP_TILE_COLUMNS;
        }
        tiles += 2;
    }
}

#endif
