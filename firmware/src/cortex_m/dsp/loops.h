/**
 * @file
 * Loops of DSP instructions, whole: GCC leaves them too few registers, or moves what does not fit into these. Other
 * processors compute the same in C (emulated_loops.h).
 */
#ifndef DTN_DSP_LOOPS_H
#define DTN_DSP_LOOPS_H

#include "../twice.h"
#include "instructions.h"

/**
 * Two rows of inputs, x and y, by pairs of rows of weights: what does not fit into registers. Of each four inputs there
 * are four words: elements 0 and 2, then 1 and 3, of x, then of y.
 */
typedef struct {
    const uint32_t *inputs;
    const uint32_t *last; /**< behind the last whole sixteen elements */
    const uint32_t *end;  /**< behind the last whole four */
    const uint32_t *rest; /**< up to three more, and zeros, */
    size_t missing;       /**< and how many zeros; 0 where there are none more */
    const void *two;      /**< of each two rows their biases, then a multiplier and a shift of each */
    int8_t *outputs[2];   /**< of x and of y */
    int32_t addend;       /**< to all outputs, as `dtn_dsp_half_s8` takes them */
    size_t left;          /**< pairs of rows of weights */
    size_t depth;         /**< from a row of weights to the next */
} dtn_dsp_pairs_t;

/** One row of inputs, of which two words are four, by four rows of weights at a time. */
typedef struct {
    const uint32_t *inputs;
    const uint32_t *last; /**< behind the last whole sixteen elements */
    const uint32_t *end;
    const int32_t *bias;
    int8_t *output;
    int32_t addend;    /**< to all outputs, as `dtn_dsp_half_s8` takes them */
    int32_t factor[2]; /**< of all: a multiplier and a shift */
    size_t left;       /**< times four rows of weights */
    size_t depth;      /**< from a row of weights to the next */
} dtn_dsp_fours_t;

#if defined(__ARM_FEATURE_DSP)

/* clang-format off */

/* Four inputs by four weights of a row. */
#define DTN_DSP_ROW(sum, place) \
    "ldr %[m], " place "\n" \
    "sxtb16 %[n], %[m], ror #8\n" \
    "sxtb16 %[m], %[m]\n" \
    "smlad %[" sum "], %[x], %[m], %[" sum "]\n" \
    "smlad %[" sum "], %[y], %[n], %[" sum "]\n"

/* Four inputs by four rows of weights: the first, those a pitch and two behind it, and the last. */
#define DTN_DSP_FOUR_ROWS(first, pitch) \
    "ldrd %[x], %[y], [%[in]], #8\n" \
    DTN_DSP_ROW("b", "[%[" first "], %[" pitch "]]") \
    DTN_DSP_ROW("c", "[%[" first "], %[" pitch "], lsl #1]") \
    DTN_DSP_ROW("d", "[%[last]], #4") \
    DTN_DSP_ROW("a", "[%[" first "]], #4")

/* By two rows. */
#define DTN_DSP_TWO_ROWS \
    "ldrd %[x], %[y], [%[in]], #8\n" \
    DTN_DSP_ROW("b", "[%[w], %[pitch]]") \
    DTN_DSP_ROW("a", "[%[w]], #4")

/* Four elements of x, or of y, by those of two rows of weights, unpacked. */
#define DTN_DSP_INPUTS(place, by_w, by_v) \
    "ldrd %[x], %[y], " place "\n" \
    "smlad %[" by_w "], %[x], %[m], %[" by_w "]\n" \
    "smlad %[" by_v "], %[x], %[low], %[" by_v "]\n" \
    "smlad %[" by_w "], %[y], %[n], %[" by_w "]\n" \
    "smlad %[" by_v "], %[y], %[top], %[" by_v "]\n"

/* Four elements each of x and y by those of two rows of weights, packed. */
#define DTN_DSP_PRODUCTS \
    "sxtb16 %[n], %[m], ror #8\n" \
    "sxtb16 %[m], %[m]\n" \
    "sxtb16 %[top], %[low], ror #8\n" \
    "sxtb16 %[low], %[low]\n" \
    DTN_DSP_INPUTS("[%[in]], #16", "a", "b") \
    DTN_DSP_INPUTS("[%[in], #-8]", "c", "d")

/* The same with the next weights. */
#define DTN_DSP_TWO_BY_TWO \
    "ldr %[m], [%[w]], #4\n" \
    "ldr %[low], [%[v]], #4\n" \
    DTN_DSP_PRODUCTS

/* Four channels at a position of a kernel, three positions, and nine. */
#define DTN_DSP_TAP(place, tap) \
    "ldr %[x], " place "\n" \
    "ldrd %[m], %[n], [%[taps], #" tap "]\n" \
    "sxtab16 %[y], %[offsets], %[x]\n" \
    "sxtab16 %[x], %[offsets], %[x], ror #8\n" \
    "smlabb %[a], %[y], %[m], %[a]\n" \
    "smlatt %[c], %[y], %[m], %[c]\n" \
    "smlabb %[b], %[x], %[n], %[b]\n" \
    "smlatt %[d], %[x], %[n], %[d]\n"
#define DTN_DSP_THREE_TAPS(first, second, third) \
    DTN_DSP_TAP("[%[in]]", first) \
    DTN_DSP_TAP("[%[in], %[column]]", second) \
    DTN_DSP_TAP("[%[in], %[column], lsl #1]", third)
#define DTN_DSP_NINE_TAPS \
    DTN_DSP_THREE_TAPS("0", "8", "16") \
    "add %[in], %[in], %[row]\n" \
    DTN_DSP_THREE_TAPS("24", "32", "40") \
    "add %[in], %[in], %[row]\n" \
    DTN_DSP_THREE_TAPS("48", "56", "64")

/* Stores the output of a sum, with multiplier m and shift n; the unit is 2^30. */
#define DTN_DSP_OUTPUT(sum, unit, addend, place) \
    DTN_DSP_TOP("%[" sum "]", "%[m]", "%[" unit "]") \
    "asr %[top], %[top], %[n]\n" \
    "add %[top], %[" addend "]\n" \
    "ssat %[top], #8, %[top], asr #1\n" \
    "strb %[top], " place "\n"

/* With the next factors. */
#define DTN_DSP_NEXT_OUTPUT(sum) \
    "ldrd %[m], %[n], [%[factors]], #8\n" \
    DTN_DSP_OUTPUT(sum, "unit", "addend", "[%[out]], #1")

#define DTN_DSP_TIMES_4(block) block block block block

/* A field of the structure at p, and a branch by whether the inputs are where it points. */
#define DTN_DSP_FIELD(name) "[%[p], %[" name "]]"
#define DTN_DSP_IF_AT(name, branch) \
    "ldr %[x], " DTN_DSP_FIELD(name) "\n" \
    "cmp %[in], %[x]\n" \
    branch "\n"

/* The loop of two by two, as a whole. */
#define DTN_DSP_PAIRS \
    "1:\n" \
    /* The sums start at the biases. */ \
    "ldr %[x], " DTN_DSP_FIELD("two") "\n" \
    "ldr %[in], " DTN_DSP_FIELD("inputs") "\n" \
    "ldrd %[a], %[b], [%[x]]\n" \
    "mov %[c], %[a]\n" \
    "mov %[d], %[b]\n" \
    /* Sixteen elements at a time, then four. */ \
    DTN_DSP_IF_AT("last", "beq 3f") \
    "2:\n" \
    DTN_DSP_TIMES_4(DTN_DSP_TWO_BY_TWO) \
    DTN_DSP_IF_AT("last", "bne 2b") \
    "3:\n" \
    DTN_DSP_IF_AT("end", "beq 5f") \
    "4:\n" \
    DTN_DSP_TWO_BY_TWO \
    DTN_DSP_IF_AT("end", "bne 4b") \
    "5:\n" \
    /* The last up to three weights are the upper bytes of the last four. */ \
    "ldr %[x], " DTN_DSP_FIELD("missing") "\n" \
    "cmp %[x], #0\n" \
    "beq 6f\n" \
    "sub %[w], %[w], %[x]\n" \
    "sub %[v], %[v], %[x]\n" \
    "ldr %[m], [%[w]], #4\n" \
    "ldr %[low], [%[v]], #4\n" \
    "lsl %[x], %[x], #3\n" \
    "lsr %[m], %[m], %[x]\n" \
    "lsr %[low], %[low], %[x]\n" \
    "ldr %[in], " DTN_DSP_FIELD("rest") "\n" \
    DTN_DSP_PRODUCTS \
    "6:\n" \
    /* The outputs of both channels, to where w and the inputs were. */ \
    "ldrd %[w], %[in], " DTN_DSP_FIELD("outputs") "\n" \
    "ldr %[x], " DTN_DSP_FIELD("addend") "\n" \
    "mov %[y], #0x40000000\n" \
    "ldr %[top], " DTN_DSP_FIELD("two") "\n" \
    "ldrd %[m], %[n], [%[top], #8]\n" \
    DTN_DSP_OUTPUT("c", "y", "x", "[%[in]], #1") \
    DTN_DSP_OUTPUT("a", "y", "x", "[%[w]], #1") \
    "ldr %[top], " DTN_DSP_FIELD("two") "\n" \
    "ldrd %[m], %[n], [%[top], #16]\n" \
    "add %[top], %[top], #24\n" \
    "str %[top], " DTN_DSP_FIELD("two") "\n" \
    DTN_DSP_OUTPUT("d", "y", "x", "[%[in]], #1") \
    DTN_DSP_OUTPUT("b", "y", "x", "[%[w]], #1") \
    "strd %[w], %[in], " DTN_DSP_FIELD("outputs") "\n" \
    /* The next two rows lie behind the second. */ \
    "ldrd %[a], %[b], " DTN_DSP_FIELD("left") "\n" \
    "mov %[w], %[v]\n" \
    "add %[v], %[v], %[b]\n" \
    "subs %[a], %[a], #1\n" \
    "str %[a], " DTN_DSP_FIELD("left") "\n" \
    "bne 1b\n"

/* The loop of four rows of weights. Until the outputs are made `low` are the weights, and `top` is the depth. */
#define DTN_DSP_FOURS \
    "1:\n" \
    "ldr %[x], " DTN_DSP_FIELD("bias") "\n" \
    "ldrd %[a], %[b], [%[x]], #8\n" \
    "ldrd %[c], %[d], [%[x]], #8\n" \
    "str %[x], " DTN_DSP_FIELD("bias") "\n" \
    "ldr %[in], " DTN_DSP_FIELD("inputs") "\n" \
    "add %[last], %[top], %[top], lsl #1\n" \
    "add %[last], %[low]\n" \
    "2:\n" \
    DTN_DSP_TIMES_4(DTN_DSP_FOUR_ROWS("low", "top")) \
    DTN_DSP_IF_AT("sixteen", "bne 2b") \
    DTN_DSP_IF_AT("end", "beq 5f") \
    "4:\n" \
    DTN_DSP_FOUR_ROWS("low", "top") \
    DTN_DSP_IF_AT("end", "bne 4b") \
    "5:\n" \
    "ldrd %[in], %[x], " DTN_DSP_FIELD("output") "\n" \
    "ldrd %[m], %[n], " DTN_DSP_FIELD("factor") "\n" \
    "mov %[y], #0x40000000\n" \
    DTN_DSP_OUTPUT("a", "y", "x", "[%[in]], #1") \
    DTN_DSP_OUTPUT("b", "y", "x", "[%[in]], #1") \
    DTN_DSP_OUTPUT("c", "y", "x", "[%[in]], #1") \
    DTN_DSP_OUTPUT("d", "y", "x", "[%[in]], #1") \
    "str %[in], " DTN_DSP_FIELD("output") "\n" \
    /* The next row lies behind the last. */ \
    "mov %[low], %[last]\n" \
    "ldrd %[x], %[top], " DTN_DSP_FIELD("left") "\n" \
    "subs %[x], %[x], #1\n" \
    "str %[x], " DTN_DSP_FIELD("left") "\n" \
    "bne 1b\n"

/* clang-format on */

/**
 * Adds the products of 16 * `turns` inputs, at least one turn, to the sums of four rows of weights, `pitch` apart. For
 * each four inputs there are two words: elements 0 and 2, then 1 and 3.
 */
static inline void dtn_dsp_add_four_rows(const uint32_t *inputs, size_t turns, const int8_t *weights, size_t pitch,
                                         uint32_t sums[4])
{
    const uint32_t *end = inputs + 8 * turns;
    const int8_t *last = weights + 3 * pitch;
    uint32_t a = sums[0];
    uint32_t b = sums[1];
    uint32_t c = sums[2];
    uint32_t d = sums[3];
    uint32_t x;
    uint32_t y;
    uint32_t m;
    uint32_t n;
    __asm__("1:\n" DTN_DSP_TIMES_4(DTN_DSP_FOUR_ROWS("w", "pitch")) "cmp %[in], %[end]\n bne 1b\n"
            : [a] "+&r"(a), [b] "+&r"(b), [c] "+&r"(c), [d] "+&r"(d), [in] "+&r"(inputs), [w] "+&r"(weights),
              [last] "+&r"(last), [x] "=&r"(x), [y] "=&r"(y), [m] "=&r"(m), [n] "=&r"(n)
            : [pitch] "r"(pitch), [end] "r"(end)
            : "cc", "memory");
    sums[0] = a;
    sums[1] = b;
    sums[2] = c;
    sums[3] = d;
}

/** The same for two rows of weights. */
static inline void dtn_dsp_add_two_rows(const uint32_t *inputs, size_t turns, const int8_t *weights, size_t pitch,
                                        uint32_t sums[2])
{
    const uint32_t *end = inputs + 8 * turns;
    uint32_t a = sums[0];
    uint32_t b = sums[1];
    uint32_t x;
    uint32_t y;
    uint32_t m;
    uint32_t n;
    __asm__("1:\n" DTN_DSP_TIMES_4(DTN_DSP_TWO_ROWS) "cmp %[in], %[end]\n bne 1b\n"
            : [a] "+&r"(a), [b] "+&r"(b), [in] "+&r"(inputs), [w] "+&r"(weights), [x] "=&r"(x), [y] "=&r"(y),
              [m] "=&r"(m), [n] "=&r"(n)
            : [pitch] "r"(pitch), [end] "r"(end)
            : "cc", "memory");
    sums[0] = a;
    sums[1] = b;
}

/**
 * Adds the products of four channels at the nine positions of a kernel to their sums. Of each position there are two
 * words of weights: those of channels 0 and 2, then 1 and 3.
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
    __asm__(DTN_DSP_NINE_TAPS
            : [a] "+&r"(a), [b] "+&r"(b), [c] "+&r"(c), [d] "+&r"(d), [in] "+&r"(input), [x] "=&r"(x), [y] "=&r"(y),
              [m] "=&r"(m), [n] "=&r"(n)
            : [column] "r"(column), [row] "r"(row), [offsets] "r"(offsets), [taps] "r"(taps)
            : "memory");
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
    __asm__ volatile(
        DTN_DSP_NEXT_OUTPUT("a") DTN_DSP_NEXT_OUTPUT("b") DTN_DSP_NEXT_OUTPUT("c") DTN_DSP_NEXT_OUTPUT("d")
        : [factors] "+&r"(factors), [out] "+&r"(out), [m] "=&r"(m), [n] "=&r"(n), [low] "=&r"(low), [top] "=&r"(top)
        : [a] "r"(sums[0]), [b] "r"(sums[1]), [c] "r"(sums[2]), [d] "r"(sums[3]), [addend] "r"(addend),
          [unit] "r"(1 << 30)
        : "memory");
}

/**
 * Multiplies two rows of inputs by the pairs' rows of weights, which lie one behind the other, and stores the outputs,
 * of each two those of x last. Rows are of four elements or more.
 */
static inline void dtn_dsp_multiply_pairs(dtn_dsp_pairs_t *pairs, const int8_t *weights, size_t depth)
{
    const int8_t *v = weights + depth;
    const uint32_t *in;
    int32_t a;
    int32_t b;
    int32_t c;
    int32_t d;
    int32_t x;
    int32_t y;
    int32_t m;
    int32_t n;
    int32_t low;
    int32_t top;
    __asm__ volatile(
        DTN_DSP_PAIRS
        : [w] "+&r"(weights), [v] "+&r"(v), [in] "=&r"(in), [a] "=&r"(a), [b] "=&r"(b), [c] "=&r"(c), [d] "=&r"(d),
          [x] "=&r"(x), [y] "=&r"(y), [m] "=&r"(m), [n] "=&r"(n), [low] "=&r"(low), [top] "=&r"(top)
        : [p] "r"(pairs), [two] "i"(offsetof(dtn_dsp_pairs_t, two)), [inputs] "i"(offsetof(dtn_dsp_pairs_t, inputs)),
          [last] "i"(offsetof(dtn_dsp_pairs_t, last)), [end] "i"(offsetof(dtn_dsp_pairs_t, end)),
          [missing] "i"(offsetof(dtn_dsp_pairs_t, missing)), [rest] "i"(offsetof(dtn_dsp_pairs_t, rest)),
          [outputs] "i"(offsetof(dtn_dsp_pairs_t, outputs)), [addend] "i"(offsetof(dtn_dsp_pairs_t, addend)),
          [left] "i"(offsetof(dtn_dsp_pairs_t, left))
        : "cc", "memory");
}

/** Multiplies a row of inputs, of whole fours and 16 or more, by the fours' rows of weights; stores the outputs. */
static inline void dtn_dsp_multiply_fours(dtn_dsp_fours_t *fours, const int8_t *weights, size_t depth)
{
    const int8_t *last;
    const uint32_t *in;
    int32_t a;
    int32_t b;
    int32_t c;
    int32_t d;
    int32_t x;
    int32_t y;
    int32_t m;
    int32_t n;
    __asm__ volatile(DTN_DSP_FOURS
                     : [low] "+&r"(weights), [top] "+&r"(depth), [last] "=&r"(last), [in] "=&r"(in), [a] "=&r"(a),
                       [b] "=&r"(b), [c] "=&r"(c), [d] "=&r"(d), [x] "=&r"(x), [y] "=&r"(y), [m] "=&r"(m), [n] "=&r"(n)
                     : [p] "r"(fours), [bias] "i"(offsetof(dtn_dsp_fours_t, bias)),
                       [inputs] "i"(offsetof(dtn_dsp_fours_t, inputs)), [sixteen] "i"(offsetof(dtn_dsp_fours_t, last)),
                       [end] "i"(offsetof(dtn_dsp_fours_t, end)), [output] "i"(offsetof(dtn_dsp_fours_t, output)),
                       [factor] "i"(offsetof(dtn_dsp_fours_t, factor)), [left] "i"(offsetof(dtn_dsp_fours_t, left))
                     : "cc", "memory");
}

#else
#include "emulated_loops.h"
#endif

#endif /* DTN_DSP_LOOPS_H */
