/**
 * @file
 * The products of transformed tiles and transformed weights (winograd.h), by DSP instructions. Other processors compute
 * the same in C.
 *
 * Two tiles are multiplied with three channels, or with two, at one of the 36 positions after the other. Four input
 * channels are two words of each tile and of each channel: channels 0 and 2, then 1 and 3.
 *
 *   r0        the tiles: for each word of input channels that of both tiles
 *   r1        the weights: for each word of input channels that of three channels, or of two
 *   r2, r3    the words of both tiles
 *   r11, r12  words of two channels; at the end of a position the place of its sums, and where the last end
 *   lr        fours of input channels that are left
 *   r4, r5, r6, r7, r8, r10   sums of the first tile by channel, then of the second; with two channels r4 to r7
 *
 *   sp + 0 place of the sums, 4 fours of input channels, 8 end of all sums, 12 saved registers
 *
 * As in loops_dsp.h the functions never touch r9.
 */
#pragma once

#include "../winograd.h"
#include "winograd_outputs_dsp.h"

#if defined(__ARM_FEATURE_DSP)

/* clang-format off */

/* The first product of a sum, and another. */
#define DTN_DSP_FIRST(sum, x, y) "smuad " sum ", " x ", " y "\n"
#define DTN_DSP_NEXT(sum, x, y) "smlad " sum ", " x ", " y ", " sum "\n"

/* Four input channels by three channels. */
#define DTN_DSP_FOUR_BY_THREE(product) \
    "ldrd r2, r3, [r0], #8\n" \
    "ldrd r11, r12, [r1], #8\n" \
    product("r4", "r2", "r11") \
    product("r7", "r3", "r11") \
    product("r5", "r2", "r12") \
    product("r8", "r3", "r12") \
    "ldrd r11, r12, [r1], #8\n" \
    product("r6", "r2", "r11") \
    product("r10", "r3", "r11") \
    "ldrd r2, r3, [r0], #8\n" \
    DTN_DSP_NEXT("r4", "r2", "r12") \
    DTN_DSP_NEXT("r7", "r3", "r12") \
    "ldrd r11, r12, [r1], #8\n" \
    DTN_DSP_NEXT("r5", "r2", "r11") \
    DTN_DSP_NEXT("r8", "r3", "r11") \
    DTN_DSP_NEXT("r6", "r2", "r12") \
    DTN_DSP_NEXT("r10", "r3", "r12")

/* Two input channels by two channels, and four. */
#define DTN_DSP_TWO_BY_TWO(product) \
    "ldrd r2, r3, [r0], #8\n" \
    "ldrd r11, r12, [r1], #8\n" \
    product("r4", "r2", "r11") \
    product("r6", "r3", "r11") \
    product("r5", "r2", "r12") \
    product("r7", "r3", "r12")
#define DTN_DSP_FOUR_BY_TWO(product) DTN_DSP_TWO_BY_TWO(product) DTN_DSP_TWO_BY_TWO(DTN_DSP_NEXT)

/* Stores the sums of a position, and branches back unless it was the last. */
#define DTN_DSP_STORE_THREE "stm r11!, {r4, r5, r6, r7, r8, r10}\n"
#define DTN_DSP_STORE_TWO "stm r11, {r4, r5, r6, r7}\n" "add r11, r11, #24\n"
#define DTN_DSP_END_OF_POSITION(store, branch) \
    "ldr r11, [sp]\n" \
    "ldr r12, [sp, #8]\n" \
    store \
    "str r11, [sp]\n" \
    "cmp r11, r12\n" \
    branch "\n"

/* All positions, with a number of input channels that is a multiple of 16, or with any. */
#define DTN_DSP_POSITIONS(four, store) \
    "push {r4, r5, r6, r7, r8, r10, r11, lr}\n" \
    "add r12, r2, #864\n" \
    "push {r2, r3, r12}\n" \
    "tst r3, #3\n" \
    "bne 4f\n" \
    "1:\n" \
    four(DTN_DSP_FIRST) four(DTN_DSP_NEXT) four(DTN_DSP_NEXT) four(DTN_DSP_NEXT) \
    "ldr lr, [sp, #4]\n" \
    "subs lr, lr, #4\n" \
    "beq 3f\n" \
    "2:\n" \
    DTN_DSP_TIMES_4(four(DTN_DSP_NEXT)) \
    "subs lr, lr, #4\n" \
    "bne 2b\n" \
    "3:\n" \
    DTN_DSP_END_OF_POSITION(store, "bne 1b") \
    "b 7f\n" \
    "4:\n" \
    four(DTN_DSP_FIRST) \
    "ldr lr, [sp, #4]\n" \
    "subs lr, lr, #1\n" \
    "beq 6f\n" \
    "5:\n" \
    four(DTN_DSP_NEXT) \
    "subs lr, lr, #1\n" \
    "bne 5b\n" \
    "6:\n" \
    DTN_DSP_END_OF_POSITION(store, "bne 4b") \
    "7:\n" \
    "add sp, sp, #12\n" \
    "pop {r4, r5, r6, r7, r8, r10, r11, pc}\n"

/* clang-format on */

/* The assembly is one string, longer than C99 requires of a compiler. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverlength-strings"

/** Fills the sums of all positions: DTN_DSP_TILE_SUMS each, three of the first tile, then three of the second. */
DTN_DSP_NAKED static void dtn_dsp_three_channels(const uint32_t *tiles DTN_DSP_PARAMETER,
                                                 const uint32_t *weights DTN_DSP_PARAMETER,
                                                 uint32_t *sums DTN_DSP_PARAMETER, size_t fours DTN_DSP_PARAMETER)
{
    __asm__(DTN_DSP_POSITIONS(DTN_DSP_FOUR_BY_THREE, DTN_DSP_STORE_THREE));
}

/** The same for two channels: two sums of the first tile, then two of the second. */
DTN_DSP_NAKED static void dtn_dsp_two_channels(const uint32_t *tiles DTN_DSP_PARAMETER,
                                               const uint32_t *weights DTN_DSP_PARAMETER,
                                               uint32_t *sums DTN_DSP_PARAMETER, size_t fours DTN_DSP_PARAMETER)
{
    __asm__(DTN_DSP_POSITIONS(DTN_DSP_FOUR_BY_TWO, DTN_DSP_STORE_TWO));
}

#pragma GCC diagnostic pop

#else

static inline void dtn_dsp_some_channels(const uint32_t *tiles, const uint32_t *weights, size_t channels,
                                         uint32_t *sums, size_t fours)
{
    for (size_t position = 0; position < DTN_CM_TILE_PRODUCTS; position++) {
        for (size_t i = 0; i < 2 * channels; i++) {
            sums[i] = 0;
            for (size_t word = 0; word < 2 * fours; word++) {
                sums[i] =
                    dtn_dsp_both(tiles[2 * word + i / channels], weights[channels * word + i % channels], sums[i]);
            }
        }
        tiles += 4 * fours;
        weights += 2 * channels * fours;
        sums += DTN_DSP_TILE_SUMS;
    }
}

static inline void dtn_dsp_three_channels(const uint32_t *tiles, const uint32_t *weights, uint32_t *sums, size_t fours)
{
    dtn_dsp_some_channels(tiles, weights, 3, sums, fours);
}

static inline void dtn_dsp_two_channels(const uint32_t *tiles, const uint32_t *weights, uint32_t *sums, size_t fours)
{
    dtn_dsp_some_channels(tiles, weights, 2, sums, fours);
}

#endif
