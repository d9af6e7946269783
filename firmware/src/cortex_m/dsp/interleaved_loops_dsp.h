/**
 * @file
 * The inner loops for interleaved rows of weights (interleaved_weights.h), by DSP instructions. Other processors
 * compute the same in C. As in loops_dsp.h, the functions never touch r9.
 */
#pragma once

#include "interleaved_rows_dsp.h"
#include "loops_dsp.h"

/**
 * Steps of two elements in a turn of the loops of three rows, the code of each, and what marks weights of 16 bits.
 * Steps of four elements in a turn of the loop of a row, and the code of each.
 */
enum {
    DTN_DSP_THREE_STEPS = 16,
    DTN_DSP_THREE_STEP_BYTES = 40,
    DTN_DSP_THREE_S16_STEP_BYTES = 32,
    DTN_DSP_THREE_S16 = 1,
    DTN_DSP_ROW_STEPS = 8,
    DTN_DSP_ROW_STEP_BYTES = 76,
};

#if defined(__ARM_FEATURE_DSP)

/* clang-format off */

/*
 * Three rows of inputs by pairs of rows of weights v and w.
 *
 *   r0 in    words of inputs; at the end of a pair the outputs
 *   r1       weights
 *   r2, r3   two elements of v, and of w; at the end of a pair a multiplier and a shift
 *   r10, r11, r12   two elements of each row of inputs; at the end of a pair a product, and the addend
 *   r4, r5, r6      sums of v; after they are stored r4 is the pitch, and r5 2^30
 *   r7, r8, lr      sums of w
 *
 * A turn of a loop has sixteen steps, of a word of weights of 8 bits or two of 16 bits. The first one starts where as
 * many are left as the others lack.
 *
 *   sp + 0 inputs, 4 end of all weights, 8 end of inputs, 12 saved registers, 44 the caller's parameters
 */
#define DTN_DSP_THREE_INPUTS "[sp]"
#define DTN_DSP_THREE_LAST_PAIR "[sp, #4]"
#define DTN_DSP_THREE_END "[sp, #8]"
#define DTN_DSP_THREE_SKIPPED "[sp, #44]"
#define DTN_DSP_THREE_BIAS "[sp, #48]"
#define DTN_DSP_THREE_FACTORS "[sp, #52]"
#define DTN_DSP_THREE_OUTPUT "[sp, #60]"
#define DTN_DSP_THREE_PITCH "[sp, #64]"
#define DTN_DSP_THREE_ADDEND "[sp, #68]"

/* Two elements of all rows. A step has DTN_DSP_THREE_STEP_BYTES, with weights of 16 bits DTN_DSP_THREE_S16_STEP_BYTES. */
#define DTN_DSP_THREE_SUMS \
    "smlad r4, r10, r2, r4\n" \
    "smlad r5, r11, r2, r5\n" \
    "smlad r6, r12, r2, r6\n" \
    "smlad r7, r10, r3, r7\n" \
    "smlad r8, r11, r3, r8\n" \
    "smlad lr, r12, r3, lr\n"
#define DTN_DSP_THREE_PRODUCTS \
    "ldm.w r0!, {r10, r11, r12}\n" \
    "sxtb16 r2, r3\n" \
    "sxtb16 r3, r3, ror #8\n" \
    DTN_DSP_THREE_SUMS
#define DTN_DSP_THREE_STEP \
    "ldr.w r3, [r1], #4\n" \
    DTN_DSP_THREE_PRODUCTS
#define DTN_DSP_THREE_S16_STEP \
    "ldrd r2, r3, [r1], #8\n" \
    "ldm.w r0!, {r10, r11, r12}\n" \
    DTN_DSP_THREE_SUMS

/* The bits that dtn_cm_factor drops, of a shift. */
#define DTN_DSP_THREE_DROP \
    "mvn r3, r3\n" \
    "sub r3, r3, #1\n"
#define DTN_DSP_THREE_STORE(sum, place, unit) DTN_DSP_OUTPUT(sum, place, "r2", "r3", "r10", "r11", unit, "r12")

#define DTN_DSP_THREES \
    "push {r0, r2, r3, r4, r5, r6, r7, r8, r10, r11, lr}\n" \
    /* The address in the loop, with the bit of Thumb code. */ \
    "ldr r10, " DTN_DSP_THREE_SKIPPED "\n" \
    "adr.w r11, 2f\n" \
    "tst r10, #1\n" \
    "it ne\n" \
    "adrne.w r11, 3f\n" \
    "add r10, r10, r11\n" \
    "orr r10, r10, #1\n" \
    "str r10, " DTN_DSP_THREE_SKIPPED "\n" \
    "1:\n" \
    /* The sums start at the biases. */ \
    "ldr r10, " DTN_DSP_THREE_BIAS "\n" \
    "ldr r0, " DTN_DSP_THREE_INPUTS "\n" \
    "ldrd r4, r7, [r10], #8\n" \
    "str r10, " DTN_DSP_THREE_BIAS "\n" \
    "mov r5, r4\n" \
    "mov r6, r4\n" \
    "mov r8, r7\n" \
    "mov lr, r7\n" \
    "ldr pc, " DTN_DSP_THREE_SKIPPED "\n" \
    "3:\n" \
    DTN_DSP_TIMES_4(DTN_DSP_TIMES_4(DTN_DSP_THREE_S16_STEP)) \
    DTN_DSP_IF_AT("r10", DTN_DSP_THREE_END, "bne 3b") \
    "b 4f\n" \
    "2:\n" \
    DTN_DSP_TIMES_4(DTN_DSP_TIMES_4(DTN_DSP_THREE_STEP)) \
    DTN_DSP_IF_AT("r10", DTN_DSP_THREE_END, "bne 2b") \
    "4:\n" \
    "ldrd r10, r11, " DTN_DSP_THREE_FACTORS "\n" \
    "ldr r12, " DTN_DSP_THREE_ADDEND "\n" \
    "ldr r2, [r10], #8\n" \
    "ldr r3, [r11], #8\n" \
    "ldr r0, " DTN_DSP_THREE_OUTPUT "\n" \
    "strd r10, r11, " DTN_DSP_THREE_FACTORS "\n" \
    DTN_DSP_THREE_DROP \
    /* Until sums are stored, no registers are free for 2^30 and the pitch. */ \
    "mov r10, #0x40000000\n" \
    DTN_DSP_THREE_STORE("r4", "[r0]", "r10") \
    "ldr r4, " DTN_DSP_THREE_PITCH "\n" \
    "mov r10, #0x40000000\n" \
    DTN_DSP_THREE_STORE("r5", "[r0, r4]", "r10") \
    "mov r5, #0x40000000\n" \
    DTN_DSP_THREE_STORE("r6", "[r0, r4, lsl #1]", "r5") \
    "ldrd r10, r11, " DTN_DSP_THREE_FACTORS "\n" \
    "add r0, r0, #1\n" \
    "ldr r2, [r10, #-4]\n" \
    "ldr r3, [r11, #-4]\n" \
    DTN_DSP_THREE_DROP \
    DTN_DSP_THREE_STORE("r8", "[r0, r4]", "r5") \
    DTN_DSP_THREE_STORE("lr", "[r0, r4, lsl #1]", "r5") \
    DTN_DSP_THREE_STORE("r7", "[r0], #1", "r5") \
    "str r0, " DTN_DSP_THREE_OUTPUT "\n" \
    /* The next pair follows. */ \
    "ldr r10, " DTN_DSP_THREE_LAST_PAIR "\n" \
    "cmp r1, r10\n" \
    "bne 1b\n" \
    "add sp, sp, #12\n" \
    "pop {r4, r5, r6, r7, r8, r10, r11, pc}\n"

/*
 * A row of inputs by two pairs of rows of weights at a time.
 *
 *   r0 in      inputs; at the end the outputs
 *   r1, r2     weights of the first pair, and of the second
 *   r10, r11   elements 0 and 2, then 1 and 3 of inputs; at the end the addend, and 2^30
 *   r12, lr    the same of a pair of weights; at the end a product
 *   r3, r7     two weights of one row; at the end the multiplier and the shift
 *   r4, r5, r6, r8   sums
 *
 * The first turn of the loop starts where as many steps are left as the others lack.
 *
 *   sp + 0 inputs, 4 bytes of a pair, 8 address in the loop, 12 saved registers, 44 the caller's parameters
 */
#define DTN_DSP_ROW_INPUTS_AND_PAIR "[sp]"
#define DTN_DSP_ROW_SKIPPED "[sp, #8]"
#define DTN_DSP_ROW_LAST_PAIR "[sp, #44]"
#define DTN_DSP_ROW_END "[sp, #48]"
#define DTN_DSP_ROW_BIAS "[sp, #52]"
#define DTN_DSP_ROW_OUTPUT "[sp, #56]"
#define DTN_DSP_ROW_ADDEND "[sp, #60]"
#define DTN_DSP_ROW_FACTOR "[sp, #64]"

#define DTN_DSP_ROW_STEP \
    "ldrd r12, lr, [r1], #8\n" \
    "ldrd r10, r11, [r0], #8\n" \
    "sxtb16 r3, r12\n" \
    "sxtb16 r12, r12, ror #8\n" \
    "smlad r4, r10, r3, r4\n" \
    "smlad r5, r10, r12, r5\n" \
    "sxtb16 r3, lr\n" \
    "sxtb16 r7, lr, ror #8\n" \
    "ldrd r12, lr, [r2], #8\n" \
    "smlad r4, r11, r3, r4\n" \
    "smlad r5, r11, r7, r5\n" \
    "sxtb16 r3, r12\n" \
    "sxtb16 r12, r12, ror #8\n" \
    "smlad r6, r10, r3, r6\n" \
    "smlad r8, r10, r12, r8\n" \
    "sxtb16 r3, lr\n" \
    "sxtb16 lr, lr, ror #8\n" \
    "smlad r6, r11, r3, r6\n" \
    "smlad r8, r11, lr, r8\n"
#define DTN_DSP_ROW_STORE(sum) DTN_DSP_OUTPUT(sum, "[r0], #1", "r3", "r7", "r12", "lr", "r11", "r10")

#define DTN_DSP_ROWS \
    "adr.w r12, 2f\n" \
    "add r3, r3, r12\n" \
    "orr r3, r3, #1\n" \
    "push {r0, r2, r3, r4, r5, r6, r7, r8, r10, r11, lr}\n" \
    "1:\n" \
    "ldr r10, " DTN_DSP_ROW_BIAS "\n" \
    "ldrd r0, r2, " DTN_DSP_ROW_INPUTS_AND_PAIR "\n" \
    "ldrd r4, r5, [r10], #8\n" \
    "ldrd r6, r8, [r10], #8\n" \
    "str r10, " DTN_DSP_ROW_BIAS "\n" \
    "add r2, r1, r2\n" \
    "ldr pc, " DTN_DSP_ROW_SKIPPED "\n" \
    "2:\n" \
    DTN_DSP_TIMES_4(DTN_DSP_ROW_STEP DTN_DSP_ROW_STEP) \
    DTN_DSP_IF_AT("r10", DTN_DSP_ROW_END, "bne 2b") \
    "ldrd r0, r10, " DTN_DSP_ROW_OUTPUT "\n" \
    "ldrd r3, r7, " DTN_DSP_ROW_FACTOR "\n" \
    "mov r11, #0x40000000\n" \
    DTN_DSP_ROW_STORE("r4") \
    DTN_DSP_ROW_STORE("r5") \
    DTN_DSP_ROW_STORE("r6") \
    DTN_DSP_ROW_STORE("r8") \
    "str r0, " DTN_DSP_ROW_OUTPUT "\n" \
    /* The next pair follows the second one. */ \
    "mov r1, r2\n" \
    "ldr r10, " DTN_DSP_ROW_LAST_PAIR "\n" \
    "cmp r1, r10\n" \
    "bne 1b\n" \
    "add sp, sp, #12\n" \
    "pop {r4, r5, r6, r7, r8, r10, r11, pc}\n"

/* clang-format on */

/* The assembly is one string, longer than C99 requires of a compiler. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverlength-strings"

/**
 * Multiplies three rows of inputs by pairs of rows of weights up to `end_of_weights`, and stores the outputs. `end` is
 * behind their words. `skipped` is the number of steps that the first turn of the loop, of DTN_DSP_THREE_STEPS,
 * lacks, times the bytes of their code. DTN_DSP_THREE_S16 is added for weights of 16 bits, which start at a multiple
 * of 4. `adr` needs the function at a multiple of 4.
 */
DTN_DSP_NAKED __attribute__((aligned(4))) static void
dtn_dsp_three_by_pairs(const uint32_t *inputs DTN_DSP_PARAMETER, const int8_t *weights DTN_DSP_PARAMETER,
                       const int8_t *end_of_weights DTN_DSP_PARAMETER, const uint32_t *end DTN_DSP_PARAMETER,
                       size_t skipped DTN_DSP_PARAMETER, const int32_t *bias DTN_DSP_PARAMETER,
                       const int32_t *multipliers DTN_DSP_PARAMETER, const int32_t *shifts DTN_DSP_PARAMETER,
                       int8_t *output DTN_DSP_PARAMETER, size_t pitch DTN_DSP_PARAMETER,
                       int32_t addend DTN_DSP_PARAMETER)
{
    __asm__(DTN_DSP_THREES);
}

/**
 * Multiplies a row of whole fours of inputs by two pairs of rows of weights at a time, up to `end_of_weights`, and
 * stores the outputs. Each four inputs are two words. Weights start at a multiple of 4, and a pair has `pair` bytes.
 * `end` is behind all words. `skipped` is the number of steps that the first turn of the loop, of DTN_DSP_ROW_STEPS,
 * lacks, times the bytes of their code. All outputs have one factor. `adr` needs the function at a multiple of 4.
 */
DTN_DSP_NAKED __attribute__((aligned(4))) static void dtn_dsp_row_by_pairs(
    const uint32_t *inputs DTN_DSP_PARAMETER, const int8_t *weights DTN_DSP_PARAMETER, size_t pair DTN_DSP_PARAMETER,
    size_t skipped DTN_DSP_PARAMETER, const int8_t *end_of_weights DTN_DSP_PARAMETER,
    const uint32_t *end DTN_DSP_PARAMETER, const int32_t *bias DTN_DSP_PARAMETER, int8_t *output DTN_DSP_PARAMETER,
    int32_t addend DTN_DSP_PARAMETER, int32_t multiplier DTN_DSP_PARAMETER, int32_t drop DTN_DSP_PARAMETER)
{
    __asm__(DTN_DSP_ROWS);
}

#pragma GCC diagnostic pop

#else

/* The sum and the products of a word of inputs with one of a pair of weights; `row` of the pair is 0 or 1. */
static inline uint32_t dtn_dsp_add_of_pair(uint32_t inputs, uint32_t weights, size_t row, uint32_t sum)
{
    return dtn_dsp_both(inputs, row == 0 ? dtn_dsp_even(weights) : dtn_dsp_odd(weights), sum);
}

static inline void dtn_dsp_three_by_pairs(const uint32_t *inputs, const int8_t *weights, const int8_t *end_of_weights,
                                          const uint32_t *end, size_t skipped, const int32_t *bias,
                                          const int32_t *multipliers, const int32_t *shifts, int8_t *output,
                                          size_t pitch, int32_t addend)
{
    const size_t words = (size_t)(end - inputs) / DTN_DSP_THREE;
    const size_t is_s16 = skipped % 2;
    const size_t step = is_s16 != 0 ? 8 : 4;
    for (size_t channel = 0; weights != end_of_weights; channel++) {
        const dtn_cm_factor_t factor = {multipliers[channel], (uint32_t)-shifts[channel] - 2U};
        for (size_t row = 0; row < DTN_DSP_THREE; row++) {
            uint32_t sum = (uint32_t)bias[channel];
            const uint32_t *x = inputs + row;
            for (size_t i = 0; i < words; i++) {
                const int8_t *at = weights + step * i;
                sum = is_s16 != 0 ? dtn_dsp_both(x[i * DTN_DSP_THREE], dtn_dsp_load(at + channel % 2 * 4), sum)
                                  : dtn_dsp_add_of_pair(x[i * DTN_DSP_THREE], dtn_dsp_load(at), channel % 2, sum);
            }
            output[channel + row * pitch] = dtn_dsp_scaled(addend, factor, sum);
        }
        weights += channel % 2 * step * words;
    }
}

static inline void dtn_dsp_row_by_pairs(const uint32_t *inputs, const int8_t *weights, size_t pair, size_t skipped,
                                        const int8_t *end_of_weights, const uint32_t *end, const int32_t *bias,
                                        int8_t *output, int32_t addend, int32_t multiplier, int32_t drop)
{
    for (size_t channel = 0; weights != end_of_weights; channel++) {
        uint32_t sum = (uint32_t)bias[channel];
        for (size_t i = 0; inputs + i != end; i++) {
            sum = dtn_dsp_add_of_pair(inputs[i], dtn_dsp_load(weights + 4 * i), channel % 2, sum);
        }
        output[channel] = dtn_dsp_scaled(addend, (dtn_cm_factor_t){multiplier, (uint32_t)drop}, sum);
        weights += channel % 2 * pair;
    }
    (void)skipped;
}

#endif
