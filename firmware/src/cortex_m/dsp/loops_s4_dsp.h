/**
 * @file
 * The inner loops of loops_dsp.h for packed weights of four bits (packed_weights.h). Each takes as many instructions
 * per product: the four bytes of a packed row are two rows of four weights, and one more instruction finds the first
 * row.
 *
 * The sums start at 0, and the biases are added to those that have been unpacked.
 */
#pragma once

#include "../packed_weights.h"
#include "loops_dsp.h"

#if defined(__ARM_FEATURE_DSP)

/* clang-format off */

/* Unpacks four bytes. `bytes` and `odd` get elements 0 and 2, then 1 and 3 of both rows, as the sum b has them.
 * `first` and `first_odd` get those of the first row, as the sum a has them. `mask` has the upper half of each byte. */
#define DTN_DSP_UNPACK_S4(bytes, odd, first, first_odd, mask) \
    "and " first ", " mask ", " bytes ", lsl #4\n" \
    "sxtb16 " odd ", " bytes ", ror #8\n" \
    "sxtb16 " bytes ", " bytes "\n" \
    "sxtb16 " first_odd ", " first ", ror #8\n" \
    "sxtb16 " first ", " first "\n"

/* Unpacks the sums a and b of a packed row, and adds the biases of its channels. */
#define DTN_DSP_SUMS_S4(a, b, first_bias, second_bias) \
    "sub " b ", " b ", " a ", asr #4\n" \
    "add " a ", " first_bias ", " a ", asr #4\n" \
    "add " b ", " second_bias ", " b ", asr #4\n"

/*
 * As DTN_DSP_PAIRS, but for
 *
 *   r1 w      packed weights
 *   r2        0xF0F0F0F0
 *   r3, r10   elements 0 and 2, then 1 and 3 of both rows; at the end biases
 *   r11, r12  the same of the first row
 *   r4, r5    sums a and b of x; r6, r8 of y
 */
#define DTN_DSP_PAIRS_PRODUCTS_S4 \
    DTN_DSP_UNPACK_S4("r3", "r10", "r11", "r12", "r2") \
    "ldrd r7, lr, [r0], #16\n" \
    "smlad r4, r7, r11, r4\n" \
    "smlad r5, r7, r3, r5\n" \
    "smlad r4, lr, r12, r4\n" \
    "smlad r5, lr, r10, r5\n" \
    "ldrd r7, lr, [r0, #-8]\n" \
    "smlad r6, r7, r11, r6\n" \
    "smlad r8, r7, r3, r8\n" \
    "smlad r6, lr, r12, r6\n" \
    "smlad r8, lr, r10, r8\n"
#define DTN_DSP_PAIRS_STEP_S4 \
    "ldr r3, [r1], #4\n" \
    DTN_DSP_PAIRS_PRODUCTS_S4

#define DTN_DSP_PAIRS_S4 \
    "push {r0, r2, r3, r4, r5, r6, r7, r8, r10, r11, lr}\n" \
    "1:\n" \
    "mov r2, #0xF0F0F0F0\n" \
    "ldr r0, " DTN_DSP_PAIRS_INPUTS "\n" \
    "mov r4, #0\n" \
    "mov r5, #0\n" \
    "mov r6, #0\n" \
    "mov r8, #0\n" \
    /* Sixteen elements at a time, then four. */ \
    DTN_DSP_IF_AT("r7", DTN_DSP_PAIRS_LAST, "beq 3f") \
    "2:\n" \
    DTN_DSP_TIMES_4(DTN_DSP_PAIRS_STEP_S4) \
    DTN_DSP_IF_AT("r7", DTN_DSP_PAIRS_LAST, "bne 2b") \
    "3:\n" \
    DTN_DSP_IF_AT("r7", DTN_DSP_PAIRS_END, "beq 5f") \
    "4:\n" \
    DTN_DSP_PAIRS_STEP_S4 \
    DTN_DSP_IF_AT("r7", DTN_DSP_PAIRS_END, "bne 4b") \
    "5:\n" \
    /* The last up to three bytes are the upper ones of the last four. */ \
    "ldr r7, " DTN_DSP_PAIRS_MISSING "\n" \
    "cmp r7, #0\n" \
    "beq 6f\n" \
    "sub r1, r1, r7\n" \
    "ldr r3, [r1], #4\n" \
    "lsl r7, r7, #3\n" \
    "lsr r3, r3, r7\n" \
    "ldr r0, " DTN_DSP_PAIRS_REST "\n" \
    DTN_DSP_PAIRS_PRODUCTS_S4 \
    "6:\n" \
    "ldr r12, " DTN_DSP_PAIRS_TWO "\n" \
    "ldrd r3, r10, [r12], #8\n" \
    DTN_DSP_SUMS_S4("r4", "r5", "r3", "r10") \
    DTN_DSP_SUMS_S4("r6", "r8", "r3", "r10") \
    /* The outputs of both channels, y first; the next packed row follows. */ \
    "ldrd r2, r0, " DTN_DSP_PAIRS_OUTPUTS "\n" \
    "ldr r7, " DTN_DSP_PAIRS_ADDEND "\n" \
    "mov lr, #0x40000000\n" \
    "ldrd r3, r10, [r12], #8\n" \
    "str r12, " DTN_DSP_PAIRS_TWO "\n" \
    DTN_DSP_PAIRS_OUTPUT("r6", "[r0], #1") \
    DTN_DSP_PAIRS_OUTPUT("r4", "[r2], #1") \
    "ldr r12, " DTN_DSP_PAIRS_TWO "\n" \
    "ldrd r3, r10, [r12], #8\n" \
    "str r12, " DTN_DSP_PAIRS_TWO "\n" \
    DTN_DSP_PAIRS_OUTPUT("r8", "[r0], #1") \
    DTN_DSP_PAIRS_OUTPUT("r5", "[r2], #1") \
    "strd r2, r0, " DTN_DSP_PAIRS_OUTPUTS "\n" \
    "ldr r5, " DTN_DSP_PAIRS_LEFT "\n" \
    "subs r5, r5, #1\n" \
    "str r5, " DTN_DSP_PAIRS_LEFT "\n" \
    "bne 1b\n" \
    "add sp, sp, #12\n" \
    "pop {r4, r5, r6, r7, r8, r10, r11, pc}\n"

/*
 * As DTN_DSP_FOURS, but for
 *
 *   r1 w, r2 v   two packed rows; at the end free
 *   r3           0xF0F0F0F0; at the end the next packed row
 *   r4, r5       sums a and b of w; r6, r8 of v
 *   r7, r12, lr  weights; at the end biases, the multiplier and the shift
 *
 *   sp + 0 inputs, 4 depth, 8 fours that are left, 12 saved registers, 44 the caller's parameters
 */
#define DTN_DSP_FOURS_INPUTS_S4 "[sp]"
#define DTN_DSP_FOURS_DEPTH_S4 "[sp, #4]"
#define DTN_DSP_FOURS_LEFT_S4 "[sp, #8]"
#define DTN_DSP_FOURS_LAST_S4 "[sp, #44]"
#define DTN_DSP_FOURS_END_S4 "[sp, #48]"
#define DTN_DSP_FOURS_BIAS_S4 "[sp, #52]"
#define DTN_DSP_FOURS_OUTPUT_ADDEND_S4 "[sp, #56]"
#define DTN_DSP_FOURS_OUTPUT_S4 "[sp, #56]"
#define DTN_DSP_FOURS_FACTOR_S4 "[sp, #64]"

#define DTN_DSP_FOURS_ROW_S4(place, a, b) \
    "ldr r12, [" place "], #4\n" \
    "and lr, r3, r12, lsl #4\n" \
    "sxtb16 r7, r12, ror #8\n" \
    "sxtb16 r12, r12\n" \
    "smlad " b ", r11, r7, " b "\n" \
    "smlad " b ", r10, r12, " b "\n" \
    "sxtb16 r7, lr, ror #8\n" \
    "sxtb16 lr, lr\n" \
    "smlad " a ", r11, r7, " a "\n" \
    "smlad " a ", r10, lr, " a "\n"
#define DTN_DSP_FOURS_STEP_S4 \
    "ldrd r10, r11, [r0], #8\n" \
    DTN_DSP_FOURS_ROW_S4("r1", "r4", "r5") \
    DTN_DSP_FOURS_ROW_S4("r2", "r6", "r8")

#define DTN_DSP_FOURS_S4 \
    "push {r0, r2, r3, r4, r5, r6, r7, r8, r10, r11, lr}\n" \
    "1:\n" \
    "add r2, r1, r2\n" \
    "mov r3, #0xF0F0F0F0\n" \
    "ldr r0, " DTN_DSP_FOURS_INPUTS_S4 "\n" \
    "mov r4, #0\n" \
    "mov r5, #0\n" \
    "mov r6, #0\n" \
    "mov r8, #0\n" \
    /* Sixteen elements at a time, then four. */ \
    "2:\n" \
    DTN_DSP_TIMES_4(DTN_DSP_FOURS_STEP_S4) \
    DTN_DSP_IF_AT("r10", DTN_DSP_FOURS_LAST_S4, "bne 2b") \
    DTN_DSP_IF_AT("r10", DTN_DSP_FOURS_END_S4, "beq 5f") \
    "4:\n" \
    DTN_DSP_FOURS_STEP_S4 \
    DTN_DSP_IF_AT("r10", DTN_DSP_FOURS_END_S4, "bne 4b") \
    "5:\n" \
    "ldr r10, " DTN_DSP_FOURS_BIAS_S4 "\n" \
    "ldrd r7, r12, [r10], #8\n" \
    DTN_DSP_SUMS_S4("r4", "r5", "r7", "r12") \
    "ldrd r7, r12, [r10], #8\n" \
    DTN_DSP_SUMS_S4("r6", "r8", "r7", "r12") \
    "str r10, " DTN_DSP_FOURS_BIAS_S4 "\n" \
    /* The next packed row follows the second one. */ \
    "mov r3, r2\n" \
    "ldrd r0, r10, " DTN_DSP_FOURS_OUTPUT_ADDEND_S4 "\n" \
    "ldrd r12, lr, " DTN_DSP_FOURS_FACTOR_S4 "\n" \
    "mov r11, #0x40000000\n" \
    DTN_DSP_FOURS_STORE("r4") \
    DTN_DSP_FOURS_STORE("r5") \
    DTN_DSP_FOURS_STORE("r6") \
    DTN_DSP_FOURS_STORE("r8") \
    "str r0, " DTN_DSP_FOURS_OUTPUT_S4 "\n" \
    "mov r1, r3\n" \
    "ldrd r2, r10, " DTN_DSP_FOURS_DEPTH_S4 "\n" \
    "subs r10, r10, #1\n" \
    "str r10, " DTN_DSP_FOURS_LEFT_S4 "\n" \
    "bne 1b\n" \
    "add sp, sp, #12\n" \
    "pop {r4, r5, r6, r7, r8, r10, r11, pc}\n"

/* clang-format on */

/** As `dtn_dsp_multiply_pairs`, with packed weights; `left` is the number of packed rows. */
DTN_DSP_NAKED static void dtn_dsp_multiply_pairs_s4(
    const uint32_t *inputs DTN_DSP_PARAMETER, const int8_t *weights DTN_DSP_PARAMETER, size_t depth DTN_DSP_PARAMETER,
    size_t left DTN_DSP_PARAMETER, const uint32_t *last DTN_DSP_PARAMETER, const uint32_t *end DTN_DSP_PARAMETER,
    const uint32_t *rest DTN_DSP_PARAMETER, size_t missing DTN_DSP_PARAMETER, const void *two DTN_DSP_PARAMETER,
    int8_t *x DTN_DSP_PARAMETER, int8_t *y DTN_DSP_PARAMETER, int32_t addend DTN_DSP_PARAMETER)
{
    __asm__(DTN_DSP_PAIRS_S4);
}

/** As `dtn_dsp_multiply_fours`, with packed weights; `left` is half the number of packed rows. */
DTN_DSP_NAKED static void dtn_dsp_multiply_fours_s4(
    const uint32_t *inputs DTN_DSP_PARAMETER, const int8_t *weights DTN_DSP_PARAMETER, size_t depth DTN_DSP_PARAMETER,
    size_t left DTN_DSP_PARAMETER, const uint32_t *last DTN_DSP_PARAMETER, const uint32_t *end DTN_DSP_PARAMETER,
    const int32_t *bias DTN_DSP_PARAMETER, int8_t *output DTN_DSP_PARAMETER, int32_t addend DTN_DSP_PARAMETER,
    int32_t multiplier DTN_DSP_PARAMETER, int32_t shift DTN_DSP_PARAMETER)
{
    __asm__(DTN_DSP_FOURS_S4);
}

#else

/* Adds the products of four inputs, whose words these are, with four bytes of a packed row. */
static inline void dtn_dsp_add_words_s4(const uint32_t *words, uint32_t bytes, uint32_t sums[2])
{
    sums[0] = dtn_dsp_add_words(words, bytes << 4 & UINT32_C(0xF0F0F0F0), sums[0]);
    sums[1] = dtn_dsp_add_words(words, bytes, sums[1]);
}

static inline void dtn_dsp_multiply_pairs_s4(const uint32_t *inputs, const int8_t *weights, size_t depth, size_t left,
                                             const uint32_t *last, const uint32_t *end, const uint32_t *rest,
                                             size_t missing, const void *two, int8_t *x, int8_t *y, int32_t addend)
{
    const uint8_t *numbers = (const uint8_t *)two;
    for (; left != 0; left--) {
        for (size_t row = 2; row-- != 0;) { /* y first */
            const int8_t *w = weights;
            uint32_t sums[2] = {0, 0};
            for (const uint32_t *words = inputs; words != end; words += 4) {
                dtn_dsp_add_words_s4(words + 2 * row, dtn_dsp_load(w), sums);
                w += 4;
            }
            if (missing != 0) {
                dtn_dsp_add_words_s4(rest + 2 * row, dtn_dsp_load(w - missing) >> 8 * missing, sums);
            }
            uint32_t biases[2];
            memcpy(biases, numbers, sizeof biases);
            int8_t *out = row == 1 ? y : x;
            out[0] = dtn_dsp_output(biases[0] + dtn_cm_first_sum(sums[0]), numbers + 8, 0, addend);
            out[1] = dtn_dsp_output(biases[1] + dtn_cm_second_sum(sums[0], sums[1]), numbers + 8, 1, addend);
        }
        numbers += 24;
        x += 2;
        y += 2;
        weights += depth;
    }
    (void)last;
}

static inline void dtn_dsp_multiply_fours_s4(const uint32_t *inputs, const int8_t *weights, size_t depth, size_t left,
                                             const uint32_t *last, const uint32_t *end, const int32_t *bias,
                                             int8_t *output, int32_t addend, int32_t multiplier, int32_t shift)
{
    const int32_t factor[2] = {multiplier, shift};
    for (size_t i = 2 * left; i != 0; i--) {
        uint32_t sums[2] = {0, 0};
        for (const uint32_t *words = inputs; words != end; words += 2) {
            dtn_dsp_add_words_s4(words, dtn_dsp_load(weights), sums);
            weights += 4;
        }
        *output++ = dtn_dsp_output((uint32_t)*bias++ + dtn_cm_first_sum(sums[0]), factor, 0, addend);
        *output++ = dtn_dsp_output((uint32_t)*bias++ + dtn_cm_second_sum(sums[0], sums[1]), factor, 0, addend);
    }
    (void)depth;
    (void)last;
}

#endif
