/**
 * @file
 * The outputs of a tile by Winograd's algorithm (winograd.h), by DSP instructions. Other processors compute the same in
 * C.
 *
 * First the columns of the 36 sums are multiplied by A', then the rows of these by A. The sums of six positions stay
 * where they are loaded:
 *
 *   r4 m0, r5 m1, r6 m2, r7 m3, r8 m4, r10 m5   of a column or a row, then r4, r7, r5 and r6 the outputs 0 to 3
 *
 *   columns: r0 the sums, r1 the channel, r11 its start, which position (1, 1) gets
 *   rows:    r0 multiplier, r11 addend, r12 shift, lr the inverse of 9, r2 the outputs, r3 from a pixel to the next,
 *            r1 from a row to the next, and the last output
 *
 *   sp + 0 the columns, 16 bytes of each, 96 saved registers, 128 from a row of outputs to the next
 *
 * As in loops_dsp.h the function never touches r9.
 */
#pragma once

#include "../winograd.h"
#include "instructions_dsp.h"
#include "loops_dsp.h"

/** Words from the sums of a position to the next: of two tiles and three channels. */
enum { DTN_DSP_TILE_SUMS = 6 };

/** A channel with a usual factor and the limits of int8. */
typedef struct {
    uint32_t start; /**< its kernel sum times 36 */
    int32_t multiplier;
    int32_t addend; /**< added before the shift: half of its divisor, and the output's offset times it */
    int32_t shift;
} dtn_dsp_tile_channel_t;

#if defined(__ARM_FEATURE_DSP)

/* clang-format off */

/* Multiplies six sums by A', without divisors: a = m1 + m2, b = m1 - m2, c = m3 + m4, d = m3 - m4. */
#define DTN_DSP_SIX_TO_FOUR \
    "add r5, r5, r6\n" /* a */ \
    "sub r6, r5, r6, lsl #1\n" /* b */ \
    "add r7, r7, r8\n" /* c */ \
    "sub r8, r7, r8, lsl #1\n" /* d */ \
    "add r4, r4, r4, lsl #1\n" \
    "add r10, r10, r10, lsl #1\n" \
    "add r4, r7, r4, lsl #1\n" \
    "sub r4, r4, r5, lsl #2\n" /* 6 m0 - 4 a + c */ \
    "sub r5, r7, r5\n" /* c - a */ \
    "sub r7, r8, r6, lsl #1\n" /* d - 2 b */ \
    "rsb r6, r6, r8, lsl #1\n" \
    "add r6, r6, r10, lsl #1\n" /* 2 d - b + 6 m5 */

#define DTN_DSP_LOAD_SIX(m0, m1, m2, m3, m4, m5) \
    "ldr r4, " m0 "\n" \
    "ldr r5, " m1 "\n" \
    "ldr r6, " m2 "\n" \
    "ldr r7, " m3 "\n" \
    "ldr r8, " m4 "\n" \
    "ldr r10, " m5 "\n"

/* A column, whose sums are 144 bytes apart. */
#define DTN_DSP_TILE_COLUMN(m0, m1, m2, m3, m4, m5, start, place, place_2) \
    DTN_DSP_LOAD_SIX("[r0, #" m0 "]", "[r0, #" m1 "]", "[r0, #" m2 "]", "[r0, #" m3 "]", "[r0, #" m4 "]", \
                     "[r0, #" m5 "]") \
    start \
    DTN_DSP_SIX_TO_FOUR \
    "strd r4, r7, [sp, #" place "]\n" \
    "strd r5, r6, [sp, #" place_2 "]\n"

#define DTN_DSP_ON_FOUR(instruction, last) \
    instruction " r4, r4, " last "\n" \
    instruction " r7, r7, " last "\n" \
    instruction " r5, r5, " last "\n" \
    instruction " r6, r6, " last "\n"

/* A row of four outputs. The shifts have one bit less than the sums: the factor takes twice the sum. */
#define DTN_DSP_TILE_ROW(m0, m1, m2, m3, m4, m5, shift_0, shift_1, shift_2) \
    DTN_DSP_LOAD_SIX("[sp, #" m0 "]", "[sp, #" m1 "]", "[sp, #" m2 "]", "[sp, #" m3 "]", "[sp, #" m4 "]", \
                     "[sp, #" m5 "]") \
    DTN_DSP_SIX_TO_FOUR \
    DTN_DSP_ON_FOUR("mul", "lr") \
    "asr r4, r4, #" shift_0 "\n" \
    "asr r7, r7, #" shift_1 "\n" \
    "asr r5, r5, #" shift_2 "\n" \
    "asr r6, r6, #" shift_2 "\n" \
    DTN_DSP_ON_FOUR("smmulr", "r0") \
    "add r4, r4, r4, asr #31\n" \
    "add r7, r7, r7, asr #31\n" \
    "add r5, r5, r5, asr #31\n" \
    "add r6, r6, r6, asr #31\n" \
    DTN_DSP_ON_FOUR("add", "r11") \
    DTN_DSP_ON_FOUR("asr", "r12") \
    "ssat r4, #8, r4\n" \
    "ssat r7, #8, r7\n" \
    "ssat r5, #8, r5\n" \
    "ssat r6, #8, r6\n" \
    "add r1, r2, r3, lsl #1\n" \
    "strb r4, [r2]\n" \
    "strb r7, [r2, r3]\n" \
    "strb r5, [r2, r3, lsl #1]\n" \
    "strb r6, [r1, r3]\n"

#define DTN_DSP_NEXT_TILE_ROW \
    "ldr r1, [sp, #128]\n" \
    "add r2, r2, r1\n"

#define DTN_DSP_TILE_OUTPUTS \
    "push {r4, r5, r6, r7, r8, r10, r11, lr}\n" \
    "sub sp, sp, #96\n" \
    "ldr r11, [r1]\n" \
    DTN_DSP_TILE_COLUMN("0", "144", "288", "432", "576", "720", "", "0", "8") \
    DTN_DSP_TILE_COLUMN("24", "168", "312", "456", "600", "744", "add r5, r5, r11\n", "16", "24") \
    DTN_DSP_TILE_COLUMN("48", "192", "336", "480", "624", "768", "", "32", "40") \
    DTN_DSP_TILE_COLUMN("72", "216", "360", "504", "648", "792", "", "48", "56") \
    DTN_DSP_TILE_COLUMN("96", "240", "384", "528", "672", "816", "", "64", "72") \
    DTN_DSP_TILE_COLUMN("120", "264", "408", "552", "696", "840", "", "80", "88") \
    "ldrd r0, r11, [r1, #4]\n" \
    "ldr r12, [r1, #12]\n" \
    "movw lr, #0x8e39\n" \
    "movt lr, #0x38e3\n" \
    DTN_DSP_TILE_ROW("0", "16", "32", "48", "64", "80", "5", "4", "3") \
    DTN_DSP_NEXT_TILE_ROW \
    DTN_DSP_TILE_ROW("4", "20", "36", "52", "68", "84", "4", "3", "2") \
    DTN_DSP_NEXT_TILE_ROW \
    DTN_DSP_TILE_ROW("8", "24", "40", "56", "72", "88", "3", "2", "1") \
    DTN_DSP_NEXT_TILE_ROW \
    DTN_DSP_TILE_ROW("12", "28", "44", "60", "76", "92", "3", "2", "1") \
    "add sp, sp, #96\n" \
    "pop {r4, r5, r6, r7, r8, r10, r11, pc}\n"

/* clang-format on */

/* The assembly is one string, longer than C99 requires of a compiler. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverlength-strings"

/** Stores a channel's outputs of a tile, `pixel` and `row` bytes apart; its sums are DTN_DSP_TILE_SUMS words apart. */
DTN_DSP_NAKED static void dtn_dsp_tile_outputs(const uint32_t *sums DTN_DSP_PARAMETER,
                                               const dtn_dsp_tile_channel_t *channel DTN_DSP_PARAMETER,
                                               int8_t *out DTN_DSP_PARAMETER, size_t pixel DTN_DSP_PARAMETER,
                                               size_t row DTN_DSP_PARAMETER)
{
    __asm__(DTN_DSP_TILE_OUTPUTS);
}

#pragma GCC diagnostic pop

#else

static inline void dtn_dsp_tile_outputs(const uint32_t *sums, const dtn_dsp_tile_channel_t *channel, int8_t *out,
                                        size_t pixel, size_t row)
{
    uint32_t z[DTN_CM_TILE][DTN_CM_TILE_INPUTS];
    dtn_cm_tile_columns(sums, DTN_DSP_TILE_SUMS, channel->start, z);
    for (size_t i = 0; i < DTN_CM_TILE; i++) {
        const dtn_cm_tile_sums_t y = dtn_cm_tile_sums(z[i]);
        for (size_t j = 0; j < DTN_CM_TILE; j++) {
            const int32_t twice = dtn_cm_tile_sum(y.at[j], i, j, 1);
            const int32_t value = dtn_dsp_top(twice, channel->multiplier);
            out[i * row + j * pixel] = (int8_t)dtn_dsp_s8((value + (value >> 31) + channel->addend) >> channel->shift);
        }
    }
}

#endif
