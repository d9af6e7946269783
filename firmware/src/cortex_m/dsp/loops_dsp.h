/**
 * @file
 * The inner loops that need DSP instructions and many registers. Other processors compute the same in C
 * (loops_emulated.h).
 *
 * Two kinds of assembler compile with GCC and Clang at every level of optimisation, with frame pointers and with r9
 * reserved. Short statements need few registers, and compilers may spill between them. The two loops that need 12
 * registers or more are naked functions: they save the registers that they use, and they never touch r9.
 */
#pragma once

#include "../double_rounding.h"
#include "instructions_dsp.h"

#if defined(__ARM_FEATURE_DSP)

/* A function in assembler. Its parameters lie where the procedure call standard puts them. */
#if defined(__clang__)
#define DTN_DSP_NAKED __attribute__((naked, noinline, unused))
#else
#define DTN_DSP_NAKED __attribute__((naked, noipa, unused))
#endif
#define DTN_DSP_PARAMETER __attribute__((unused))

/* clang-format off */

/* ---- Short statements, in functions that have the variables ---- */

/* Loads the next four inputs as two words. */
#define DTN_DSP_NEXT_INPUTS() \
    __asm__("ldrd %[x], %[y], [%[in]], #8\n" : [in] "+&r"(in), [x] "=&r"(x), [y] "=&r"(y) : : "memory")

/* Adds four inputs x, y times four weights to a sum. Weights are at `place`; m and n are free. */
#define DTN_DSP_ROW(sum, place, x, y, m, n) \
    "ldr " m ", " place "\n" \
    "sxtb16 " n ", " m ", ror #8\n" \
    "sxtb16 " m ", " m "\n" \
    "smlad " sum ", " x ", " m ", " sum "\n" \
    "smlad " sum ", " y ", " n ", " sum "\n"
#define DTN_DSP_ROW_OF_OPERANDS(place) DTN_DSP_ROW("%[sum]", place, "%[x]", "%[y]", "%[m]", "%[n]")
/* The weights are at w, which moves on, or some pitches behind it. */
#define DTN_DSP_NEXT_ROW(sum_, w_) \
    __asm__(DTN_DSP_ROW_OF_OPERANDS("[%[w]], #4") \
            : [sum] "+&r"(sum_), [w] "+&r"(w_), [m] "=&r"(m), [n] "=&r"(n) \
            : [x] "r"(x), [y] "r"(y) \
            : "memory")
#define DTN_DSP_ROW_AT(sum_, pitches) \
    __asm__(DTN_DSP_ROW_OF_OPERANDS("[%[w], %[pitch]" pitches "]") \
            : [sum] "+&r"(sum_), [m] "=&r"(m), [n] "=&r"(n) \
            : [w] "r"(weights), [pitch] "r"(pitch), [x] "r"(x), [y] "r"(y) \
            : "memory")

/* Four inputs by four rows of weights, and by two. */
#define DTN_DSP_FOUR_ROWS() \
    DTN_DSP_NEXT_INPUTS(); \
    DTN_DSP_ROW_AT(b, ""); \
    DTN_DSP_ROW_AT(c, ", lsl #1"); \
    DTN_DSP_NEXT_ROW(d, last); \
    DTN_DSP_NEXT_ROW(a, weights)
#define DTN_DSP_TWO_ROWS() \
    DTN_DSP_NEXT_INPUTS(); \
    DTN_DSP_ROW_AT(b, ""); \
    DTN_DSP_NEXT_ROW(a, weights)
#define DTN_DSP_4(step) step; step; step; step

/* Adds the products of four channels to their sums. Without optimisation GCC has registers for one at a time. */
#if defined(__OPTIMIZE__)
#define DTN_DSP_FOUR_CHANNELS() \
    __asm__("smlabb %[a], %[y], %[m], %[a]\n" \
            "smlatt %[c], %[y], %[m], %[c]\n" \
            "smlabb %[b], %[x], %[n], %[b]\n" \
            "smlatt %[d], %[x], %[n], %[d]\n" \
            : [a] "+&r"(a), [b] "+&r"(b), [c] "+&r"(c), [d] "+&r"(d) \
            : [x] "r"(x), [y] "r"(y), [m] "r"(m), [n] "r"(n))
#else
#define DTN_DSP_FOUR_CHANNELS() \
    a = dtn_dsp_lower(y, m, a); \
    c = dtn_dsp_upper(y, m, c); \
    b = dtn_dsp_lower(x, n, b); \
    d = dtn_dsp_upper(x, n, d)
#endif

/* Four channels at one position of a kernel, and at three. */
#define DTN_DSP_TAP(place, tap) \
    __asm__("ldr %[x], " place "\n" \
            "ldrd %[m], %[n], [%[taps], #" tap "]\n" \
            "sxtab16 %[y], %[offsets], %[x]\n" \
            "sxtab16 %[x], %[offsets], %[x], ror #8\n" \
            : [x] "=&r"(x), [y] "=&r"(y), [m] "=&r"(m), [n] "=&r"(n) \
            : [in] "r"(input), [column] "r"(column), [offsets] "r"(offsets), [taps] "r"(taps) \
            : "memory"); \
    DTN_DSP_FOUR_CHANNELS()
#define DTN_DSP_THREE_TAPS(first, second, third) \
    DTN_DSP_TAP("[%[in]]", first); \
    DTN_DSP_TAP("[%[in], %[column]]", second); \
    DTN_DSP_TAP("[%[in], %[column], lsl #1]", third)

/* Stores the int8 output of a sum, with multiplier m and shift n; the unit is 2^30, and low and top are free. */
#define DTN_DSP_OUTPUT(sum, place, m, n, low, top, unit, addend) \
    DTN_DSP_TOP(sum, m, unit, low, top) \
    "asr " top ", " top ", " n "\n" \
    "add " top ", " top ", " addend "\n" \
    "ssat " top ", #8, " top ", asr #1\n" \
    "strb " top ", " place "\n"

/* The same with the next factors. */
#define DTN_DSP_STORE_NEXT(sum_) \
    __asm__("ldrd %[m], %[n], [%[factors]], #8\n" \
            : [factors] "+&r"(factors), [m] "=&r"(m), [n] "=&r"(n) : : "memory"); \
    __asm__ volatile(DTN_DSP_OUTPUT("%[sum]", "[%[out]], #1", "%[m]", "%[n]", "%[low]", "%[top]", "%[unit]", \
                                    "%[addend]") \
                     : [out] "+&r"(out), [low] "=&r"(low), [top] "=&r"(top) \
                     : [sum] "r"(sum_), [m] "r"(m), [n] "r"(n), [addend] "r"(addend), [unit] "r"(1 << 30) \
                     : "memory")

/* ---- Naked functions ---- */

#define DTN_DSP_TIMES_4(block) block block block block

/* Branches by whether r0, the inputs, has reached the address at a place of the stack; r7 or another is free. */
#define DTN_DSP_IF_AT(free, place, branch) \
    "ldr " free ", " place "\n" \
    "cmp r0, " free "\n" \
    branch "\n"

/*
 * Two rows of inputs by pairs of rows of weights.
 *
 *   r0 in    inputs; at the end of a pair the outputs of y
 *   r1 w     weights of the first row; at the end of a pair the outputs of x
 *   r2 v     weights of the second row
 *   r3 m, r10 n        elements 0 and 2, then 1 and 3 of w; at the end of a pair a multiplier and a shift
 *   r11 low, r12 top   the same of v; at the end of a pair a product
 *   r7, lr   elements 0 and 2, then 1 and 3 of inputs; at the end of a pair the addend, and 2^30
 *   r4 a, r5 b         sums of x with w, and with v
 *   r6 c, r8 d         sums of y with w, and with v
 *
 *   sp + 0 inputs, 4 depth, 8 pairs that are left, 12 saved registers, 44 the caller's parameters
 */
#define DTN_DSP_PAIRS_INPUTS "[sp]"
#define DTN_DSP_PAIRS_DEPTH_LEFT "[sp, #4]"
#define DTN_DSP_PAIRS_LEFT "[sp, #8]"
#define DTN_DSP_PAIRS_LAST "[sp, #44]"
#define DTN_DSP_PAIRS_END "[sp, #48]"
#define DTN_DSP_PAIRS_REST "[sp, #52]"
#define DTN_DSP_PAIRS_MISSING "[sp, #56]"
#define DTN_DSP_PAIRS_TWO "[sp, #60]"
#define DTN_DSP_PAIRS_OUTPUTS "[sp, #64]"
#define DTN_DSP_PAIRS_ADDEND "[sp, #72]"

/* Four elements of x, or of y, by those of two rows of weights, unpacked. */
#define DTN_DSP_PAIRS_INPUT(place, by_w, by_v) \
    "ldrd r7, lr, " place "\n" \
    "smlad " by_w ", r7, r3, " by_w "\n" \
    "smlad " by_v ", r7, r11, " by_v "\n" \
    "smlad " by_w ", lr, r10, " by_w "\n" \
    "smlad " by_v ", lr, r12, " by_v "\n"

/* Four elements each of x and y by those of two rows of weights, packed. */
#define DTN_DSP_PAIRS_PRODUCTS \
    "sxtb16 r10, r3, ror #8\n" \
    "sxtb16 r3, r3\n" \
    "sxtb16 r12, r11, ror #8\n" \
    "sxtb16 r11, r11\n" \
    DTN_DSP_PAIRS_INPUT("[r0], #16", "r4", "r5") \
    DTN_DSP_PAIRS_INPUT("[r0, #-8]", "r6", "r8")

/* The same with the next weights. */
#define DTN_DSP_PAIRS_STEP \
    "ldr r3, [r1], #4\n" \
    "ldr r11, [r2], #4\n" \
    DTN_DSP_PAIRS_PRODUCTS

#define DTN_DSP_PAIRS_OUTPUT(sum, to) DTN_DSP_OUTPUT(sum, to, "r3", "r10", "r11", "r12", "lr", "r7")

#define DTN_DSP_PAIRS \
    "push {r0, r2, r3, r4, r5, r6, r7, r8, r10, r11, lr}\n" \
    "add r2, r1, r2\n" \
    "1:\n" \
    /* The sums start at the biases. */ \
    "ldr r7, " DTN_DSP_PAIRS_TWO "\n" \
    "ldr r0, " DTN_DSP_PAIRS_INPUTS "\n" \
    "ldrd r4, r5, [r7]\n" \
    "mov r6, r4\n" \
    "mov r8, r5\n" \
    /* Sixteen elements at a time, then four. */ \
    DTN_DSP_IF_AT("r7", DTN_DSP_PAIRS_LAST, "beq 3f") \
    "2:\n" \
    DTN_DSP_TIMES_4(DTN_DSP_PAIRS_STEP) \
    DTN_DSP_IF_AT("r7", DTN_DSP_PAIRS_LAST, "bne 2b") \
    "3:\n" \
    DTN_DSP_IF_AT("r7", DTN_DSP_PAIRS_END, "beq 5f") \
    "4:\n" \
    DTN_DSP_PAIRS_STEP \
    DTN_DSP_IF_AT("r7", DTN_DSP_PAIRS_END, "bne 4b") \
    "5:\n" \
    /* The last up to three weights are the upper bytes of the last four. */ \
    "ldr r7, " DTN_DSP_PAIRS_MISSING "\n" \
    "cmp r7, #0\n" \
    "beq 6f\n" \
    "sub r1, r1, r7\n" \
    "sub r2, r2, r7\n" \
    "ldr r3, [r1], #4\n" \
    "ldr r11, [r2], #4\n" \
    "lsl r7, r7, #3\n" \
    "lsr r3, r3, r7\n" \
    "lsr r11, r11, r7\n" \
    "ldr r0, " DTN_DSP_PAIRS_REST "\n" \
    DTN_DSP_PAIRS_PRODUCTS \
    "6:\n" \
    /* The outputs of both channels, y first. */ \
    "ldrd r1, r0, " DTN_DSP_PAIRS_OUTPUTS "\n" \
    "ldr r7, " DTN_DSP_PAIRS_ADDEND "\n" \
    "mov lr, #0x40000000\n" \
    "ldr r12, " DTN_DSP_PAIRS_TWO "\n" \
    "ldrd r3, r10, [r12, #8]\n" \
    DTN_DSP_PAIRS_OUTPUT("r6", "[r0], #1") \
    DTN_DSP_PAIRS_OUTPUT("r4", "[r1], #1") \
    "ldr r12, " DTN_DSP_PAIRS_TWO "\n" \
    "ldrd r3, r10, [r12, #16]\n" \
    "add r12, r12, #24\n" \
    "str r12, " DTN_DSP_PAIRS_TWO "\n" \
    DTN_DSP_PAIRS_OUTPUT("r8", "[r0], #1") \
    DTN_DSP_PAIRS_OUTPUT("r5", "[r1], #1") \
    "strd r1, r0, " DTN_DSP_PAIRS_OUTPUTS "\n" \
    /* The next two rows of weights follow the second one. */ \
    "ldrd r4, r5, " DTN_DSP_PAIRS_DEPTH_LEFT "\n" \
    "mov r1, r2\n" \
    "add r2, r2, r4\n" \
    "subs r5, r5, #1\n" \
    "str r5, " DTN_DSP_PAIRS_LEFT "\n" \
    "bne 1b\n" \
    "add sp, sp, #12\n" \
    "pop {r4, r5, r6, r7, r8, r10, r11, pc}\n"

/*
 * One row of inputs by four rows of weights at a time.
 *
 *   r0 in     inputs; at the end the outputs
 *   r1 w      weights of the first row; at the end free
 *   r2 pitch  from a row of weights to the next; at the end free
 *   r3 last   weights of the fourth row
 *   r4 a, r5 b, r6 c, r8 d   sums
 *   r10, r11  elements 0 and 2, then 1 and 3 of inputs; at the end the addend, and 2^30
 *   r12, lr   the same of weights; at the end the multiplier and the shift
 *
 *   sp + 0 inputs, 4 pitch, 8 fours that are left, 12 saved registers, 40 the caller's parameters
 */
#define DTN_DSP_FOURS_INPUTS "[sp]"
#define DTN_DSP_FOURS_PITCH_LEFT "[sp, #4]"
#define DTN_DSP_FOURS_LEFT "[sp, #8]"
#define DTN_DSP_FOURS_LAST "[sp, #40]"
#define DTN_DSP_FOURS_END "[sp, #44]"
#define DTN_DSP_FOURS_BIAS "[sp, #48]"
#define DTN_DSP_FOURS_OUTPUT_ADDEND "[sp, #52]"
#define DTN_DSP_FOURS_OUTPUT "[sp, #52]"
#define DTN_DSP_FOURS_FACTOR "[sp, #60]"

#define DTN_DSP_FOURS_ROW(sum, place) DTN_DSP_ROW(sum, place, "r10", "r11", "r12", "lr")
#define DTN_DSP_FOURS_STEP \
    "ldrd r10, r11, [r0], #8\n" \
    DTN_DSP_FOURS_ROW("r5", "[r1, r2]") \
    DTN_DSP_FOURS_ROW("r6", "[r1, r2, lsl #1]") \
    DTN_DSP_FOURS_ROW("r8", "[r3], #4") \
    DTN_DSP_FOURS_ROW("r4", "[r1], #4")
#define DTN_DSP_FOURS_STORE(sum) DTN_DSP_OUTPUT(sum, "[r0], #1", "r12", "lr", "r1", "r2", "r11", "r10")

#define DTN_DSP_FOURS \
    "push {r0, r2, r3, r4, r5, r6, r8, r10, r11, lr}\n" \
    "1:\n" \
    "ldr r10, " DTN_DSP_FOURS_BIAS "\n" \
    "ldrd r4, r5, [r10], #8\n" \
    "ldrd r6, r8, [r10], #8\n" \
    "str r10, " DTN_DSP_FOURS_BIAS "\n" \
    "ldr r0, " DTN_DSP_FOURS_INPUTS "\n" \
    "add r3, r2, r2, lsl #1\n" \
    "add r3, r3, r1\n" \
    /* Sixteen elements at a time, then four. */ \
    "2:\n" \
    DTN_DSP_TIMES_4(DTN_DSP_FOURS_STEP) \
    DTN_DSP_IF_AT("r10", DTN_DSP_FOURS_LAST, "bne 2b") \
    DTN_DSP_IF_AT("r10", DTN_DSP_FOURS_END, "beq 5f") \
    "4:\n" \
    DTN_DSP_FOURS_STEP \
    DTN_DSP_IF_AT("r10", DTN_DSP_FOURS_END, "bne 4b") \
    "5:\n" \
    "ldrd r0, r10, " DTN_DSP_FOURS_OUTPUT_ADDEND "\n" \
    "ldrd r12, lr, " DTN_DSP_FOURS_FACTOR "\n" \
    "mov r11, #0x40000000\n" \
    DTN_DSP_FOURS_STORE("r4") \
    DTN_DSP_FOURS_STORE("r5") \
    DTN_DSP_FOURS_STORE("r6") \
    DTN_DSP_FOURS_STORE("r8") \
    "str r0, " DTN_DSP_FOURS_OUTPUT "\n" \
    /* The next row of weights follows the last one. */ \
    "mov r1, r3\n" \
    "ldrd r2, r10, " DTN_DSP_FOURS_PITCH_LEFT "\n" \
    "subs r10, r10, #1\n" \
    "str r10, " DTN_DSP_FOURS_LEFT "\n" \
    "bne 1b\n" \
    "add sp, sp, #12\n" \
    "pop {r4, r5, r6, r8, r10, r11, pc}\n"

/* clang-format on */

/**
 * Adds the products of `fours` times four inputs to the sums of four rows of weights, `pitch` apart. For each four
 * inputs there are two words: elements 0 and 2, then 1 and 3.
 */
static inline void dtn_dsp_add_four_rows(const uint32_t *inputs, size_t fours, const int8_t *weights, size_t pitch,
                                         uint32_t sums[4])
{
    const uint32_t *in = inputs;
    const uint32_t *last_turn = inputs + fours / 4 * 8;
    const uint32_t *end = inputs + 2 * fours;
    const int8_t *last = weights + 3 * pitch;
    uint32_t a = sums[0];
    uint32_t b = sums[1];
    uint32_t c = sums[2];
    uint32_t d = sums[3];
    uint32_t x;
    uint32_t y;
    uint32_t m;
    uint32_t n;
    while (in != last_turn) {
        DTN_DSP_4(DTN_DSP_FOUR_ROWS());
    }
    while (in != end) {
        DTN_DSP_FOUR_ROWS();
    }
    sums[0] = a;
    sums[1] = b;
    sums[2] = c;
    sums[3] = d;
}

/** The same for two rows of weights. */
static inline void dtn_dsp_add_two_rows(const uint32_t *inputs, size_t fours, const int8_t *weights, size_t pitch,
                                        uint32_t sums[2])
{
    const uint32_t *in = inputs;
    const uint32_t *last_turn = inputs + fours / 4 * 8;
    const uint32_t *end = inputs + 2 * fours;
    uint32_t a = sums[0];
    uint32_t b = sums[1];
    uint32_t x;
    uint32_t y;
    uint32_t m;
    uint32_t n;
    while (in != last_turn) {
        DTN_DSP_4(DTN_DSP_TWO_ROWS());
    }
    while (in != end) {
        DTN_DSP_TWO_ROWS();
    }
    sums[0] = a;
    sums[1] = b;
}

/**
 * Adds the products of four channels at the nine positions of a kernel to their sums. Each position has two words of
 * weights: those of channels 0 and 2, then 1 and 3.
 */
static inline void dtn_dsp_add_nine(const int8_t *input, size_t column, size_t row, uint32_t offsets,
                                    const uint32_t *taps, uint32_t sums[4])
{
    uint32_t a = sums[0];
    uint32_t b = sums[1];
    uint32_t c = sums[2];
    uint32_t d = sums[3];
    uint32_t x;
    uint32_t y;
    uint32_t m;
    uint32_t n;
    DTN_DSP_THREE_TAPS("0", "8", "16");
    input += row;
    DTN_DSP_THREE_TAPS("24", "32", "40");
    input += row;
    DTN_DSP_THREE_TAPS("48", "56", "64");
    sums[0] = a;
    sums[1] = b;
    sums[2] = c;
    sums[3] = d;
}

/**
 * Stores the outputs of four sums: as `dtn_dsp_scaled` has them. The factors are a multiplier and a shift each.
 */
static inline void dtn_dsp_store_four(const uint32_t sums[4], const void *factors, int32_t addend, int8_t *out)
{
    int32_t m;
    int32_t n;
    int32_t low;
    int32_t top;
    DTN_DSP_STORE_NEXT(sums[0]);
    DTN_DSP_STORE_NEXT(sums[1]);
    DTN_DSP_STORE_NEXT(sums[2]);
    DTN_DSP_STORE_NEXT(sums[3]);
}

/**
 * Multiplies two rows of inputs, x and y, by pairs of consecutive rows of weights, and stores the outputs, for each two
 * rows that of x last. Rows have four elements or more. Each four inputs are four words: elements 0 and 2, then 1 and
 * 3, of x, then of y.
 *
 * `left` is the number of pairs. `last` is behind the last whole sixteen elements, `end` behind the last whole four.
 * `rest` has up to three more, and `missing` zeros behind them; `missing` is 0 where there are no more. `two` has of
 * each two rows their biases, then a multiplier and a shift of each. `addend` is as `dtn_dsp_half_s8` takes it.
 */
DTN_DSP_NAKED static void dtn_dsp_multiply_pairs(
    const uint32_t *inputs DTN_DSP_PARAMETER, const int8_t *weights DTN_DSP_PARAMETER, size_t depth DTN_DSP_PARAMETER,
    size_t left DTN_DSP_PARAMETER, const uint32_t *last DTN_DSP_PARAMETER, const uint32_t *end DTN_DSP_PARAMETER,
    const uint32_t *rest DTN_DSP_PARAMETER, size_t missing DTN_DSP_PARAMETER, const void *two DTN_DSP_PARAMETER,
    int8_t *x DTN_DSP_PARAMETER, int8_t *y DTN_DSP_PARAMETER, int32_t addend DTN_DSP_PARAMETER)
{
    __asm__(DTN_DSP_PAIRS);
}

/**
 * Multiplies a row of inputs, of whole fours and 16 elements or more, by `left` times four rows of weights, and stores
 * the outputs. Each four inputs are two words. `last` is behind the last whole sixteen elements, `end` behind the last
 * four. All outputs have the multiplier and the shift.
 */
DTN_DSP_NAKED static void dtn_dsp_multiply_fours(
    const uint32_t *inputs DTN_DSP_PARAMETER, const int8_t *weights DTN_DSP_PARAMETER, size_t depth DTN_DSP_PARAMETER,
    size_t left DTN_DSP_PARAMETER, const uint32_t *last DTN_DSP_PARAMETER, const uint32_t *end DTN_DSP_PARAMETER,
    const int32_t *bias DTN_DSP_PARAMETER, int8_t *output DTN_DSP_PARAMETER, int32_t addend DTN_DSP_PARAMETER,
    int32_t multiplier DTN_DSP_PARAMETER, int32_t shift DTN_DSP_PARAMETER)
{
    __asm__(DTN_DSP_FOURS);
}

#else
#include "loops_emulated.h"
#endif
