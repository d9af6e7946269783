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
    size_t kept[2];       /**< registers of the caller, while the loop runs */
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

/*
 * In functions that have the variables: short pieces, between which compilers may move what they lack registers for, as
 * without optimisation or with options that reserve some.
 */

/* The next four inputs, as two words. */
#define DTN_DSP_NEXT_INPUTS() \
    __asm__("ldrd %[x], %[y], [%[in]], #8\n" : [in] "+&r"(in), [x] "=&r"(x), [y] "=&r"(y) : : "memory")

/* These by four weights of a row, which are the next behind `w`, or at `w` and so many pitches. */
#define DTN_DSP_ROW(place) \
    "ldr %[m], " place "\n" \
    "sxtb16 %[n], %[m], ror #8\n" \
    "sxtb16 %[m], %[m]\n" \
    "smlad %[sum], %[x], %[m], %[sum]\n" \
    "smlad %[sum], %[y], %[n], %[sum]\n"
#define DTN_DSP_NEXT_ROW(sum_, w_) \
    __asm__(DTN_DSP_ROW("[%[w]], #4") \
            : [sum] "+&r"(sum_), [w] "+&r"(w_), [m] "=&r"(m), [n] "=&r"(n) \
            : [x] "r"(x), [y] "r"(y) \
            : "memory")
#define DTN_DSP_ROW_AT(sum_, pitches) \
    __asm__(DTN_DSP_ROW("[%[w], %[pitch]" pitches "]") \
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

/* Four elements of x, or of y, by those of two rows of weights, unpacked. */
#define DTN_DSP_INPUTS(place, by_w, by_v) \
    "ldrd r7, r9, " place "\n" \
    "smlad %[" by_w "], r7, %[m], %[" by_w "]\n" \
    "smlad %[" by_v "], r7, %[low], %[" by_v "]\n" \
    "smlad %[" by_w "], r9, %[n], %[" by_w "]\n" \
    "smlad %[" by_v "], r9, %[top], %[" by_v "]\n"

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

/* Four channels at a position of a kernel, and at three. */
#define DTN_DSP_TAP(place, tap) \
    __asm__("ldr %[x], " place "\n" \
            "ldrd %[m], %[n], [%[taps], #" tap "]\n" \
            "sxtab16 %[y], %[offsets], %[x]\n" \
            "sxtab16 %[x], %[offsets], %[x], ror #8\n" \
            : [x] "=&r"(x), [y] "=&r"(y), [m] "=&r"(m), [n] "=&r"(n) \
            : [in] "r"(input), [column] "r"(column), [offsets] "r"(offsets), [taps] "r"(taps) \
            : "memory"); \
    __asm__("smlabb %[a], %[y], %[m], %[a]\n" \
            "smlatt %[c], %[y], %[m], %[c]\n" \
            "smlabb %[b], %[x], %[n], %[b]\n" \
            "smlatt %[d], %[x], %[n], %[d]\n" \
            : [a] "+&r"(a), [b] "+&r"(b), [c] "+&r"(c), [d] "+&r"(d) \
            : [x] "r"(x), [y] "r"(y), [m] "r"(m), [n] "r"(n))
#define DTN_DSP_THREE_TAPS(first, second, third) \
    DTN_DSP_TAP("[%[in]]", first); \
    DTN_DSP_TAP("[%[in], %[column]]", second); \
    DTN_DSP_TAP("[%[in], %[column], lsl #1]", third)

/* Stores the output of a sum, with multiplier m and shift n; the unit is 2^30. */
#define DTN_DSP_OUTPUT(sum, unit, addend, place) \
    DTN_DSP_TOP("%[" sum "]", "%[m]", unit) \
    "asr %[top], %[top], %[n]\n" \
    "add %[top], " addend "\n" \
    "ssat %[top], #8, %[top], asr #1\n" \
    "strb %[top], " place "\n"

#define DTN_DSP_STORE(sum_, addend_) \
    __asm__ volatile(DTN_DSP_OUTPUT("sum", "%[unit]", "%[addend]", "[%[out]], #1") \
                     : [out] "+&r"(out), [low] "=&r"(low), [top] "=&r"(top) \
                     : [sum] "r"(sum_), [m] "r"(m), [n] "r"(n), [addend] "r"(addend_), [unit] "r"(1 << 30) \
                     : "memory")

/* With the next factors. */
#define DTN_DSP_STORE_NEXT(sum_) \
    __asm__("ldrd %[m], %[n], [%[factors]], #8\n" \
            : [factors] "+&r"(factors), [m] "=&r"(m), [n] "=&r"(n) : : "memory"); \
    DTN_DSP_STORE(sum_, addend)

#define DTN_DSP_TIMES_4(block) block block block block

/* A field of the structure at p, and a branch by whether the inputs are where it points, with a free register. */
#define DTN_DSP_FIELD(name) "[%[p], %[" name "]]"
#define DTN_DSP_IF_AT(free, name, branch) \
    "ldr " free ", " DTN_DSP_FIELD(name) "\n" \
    "cmp %[in], " free "\n" \
    branch "\n"

/*
 * The loop of two by two, as a whole. It takes two registers more than compilers may have to give: r7 points to frames
 * where they are kept, and r9 may have a use on the platform. Both are kept in the structure, as a function does on
 * the stack.
 */
#define DTN_DSP_PAIRS \
    "strd r7, r9, " DTN_DSP_FIELD("kept") "\n" \
    "1:\n" \
    /* The sums start at the biases. */ \
    "ldr r7, " DTN_DSP_FIELD("two") "\n" \
    "ldr %[in], " DTN_DSP_FIELD("inputs") "\n" \
    "ldrd %[a], %[b], [r7]\n" \
    "mov %[c], %[a]\n" \
    "mov %[d], %[b]\n" \
    /* Sixteen elements at a time, then four. */ \
    DTN_DSP_IF_AT("r7", "last", "beq 3f") \
    "2:\n" \
    DTN_DSP_TIMES_4(DTN_DSP_TWO_BY_TWO) \
    DTN_DSP_IF_AT("r7", "last", "bne 2b") \
    "3:\n" \
    DTN_DSP_IF_AT("r7", "end", "beq 5f") \
    "4:\n" \
    DTN_DSP_TWO_BY_TWO \
    DTN_DSP_IF_AT("r7", "end", "bne 4b") \
    "5:\n" \
    /* The last up to three weights are the upper bytes of the last four. */ \
    "ldr r7, " DTN_DSP_FIELD("missing") "\n" \
    "cmp r7, #0\n" \
    "beq 6f\n" \
    "sub %[w], %[w], r7\n" \
    "sub %[v], %[v], r7\n" \
    "ldr %[m], [%[w]], #4\n" \
    "ldr %[low], [%[v]], #4\n" \
    "lsl r7, r7, #3\n" \
    "lsr %[m], %[m], r7\n" \
    "lsr %[low], %[low], r7\n" \
    "ldr %[in], " DTN_DSP_FIELD("rest") "\n" \
    DTN_DSP_PRODUCTS \
    "6:\n" \
    /* The outputs of both channels, to where w and the inputs were. */ \
    "ldrd %[w], %[in], " DTN_DSP_FIELD("outputs") "\n" \
    "ldr r7, " DTN_DSP_FIELD("addend") "\n" \
    "mov r9, #0x40000000\n" \
    "ldr %[top], " DTN_DSP_FIELD("two") "\n" \
    "ldrd %[m], %[n], [%[top], #8]\n" \
    DTN_DSP_OUTPUT("c", "r9", "r7", "[%[in]], #1") \
    DTN_DSP_OUTPUT("a", "r9", "r7", "[%[w]], #1") \
    "ldr %[top], " DTN_DSP_FIELD("two") "\n" \
    "ldrd %[m], %[n], [%[top], #16]\n" \
    "add %[top], %[top], #24\n" \
    "str %[top], " DTN_DSP_FIELD("two") "\n" \
    DTN_DSP_OUTPUT("d", "r9", "r7", "[%[in]], #1") \
    DTN_DSP_OUTPUT("b", "r9", "r7", "[%[w]], #1") \
    "strd %[w], %[in], " DTN_DSP_FIELD("outputs") "\n" \
    /* The next two rows lie behind the second. */ \
    "ldrd %[a], %[b], " DTN_DSP_FIELD("left") "\n" \
    "mov %[w], %[v]\n" \
    "add %[v], %[v], %[b]\n" \
    "subs %[a], %[a], #1\n" \
    "str %[a], " DTN_DSP_FIELD("left") "\n" \
    "bne 1b\n" \
    "ldrd r7, r9, " DTN_DSP_FIELD("kept") "\n"

/* clang-format on */

/**
 * Adds the products of 16 * `turns` inputs, at least one turn, to the sums of four rows of weights, `pitch` apart. For
 * each four inputs there are two words: elements 0 and 2, then 1 and 3.
 */
static inline void dtn_dsp_add_four_rows(const uint32_t *inputs, size_t turns, const int8_t *weights, size_t pitch,
                                         uint32_t sums[4])
{
    const uint32_t *in = inputs;
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
    do {
        DTN_DSP_4(DTN_DSP_FOUR_ROWS());
    } while (in != end);
    sums[0] = a;
    sums[1] = b;
    sums[2] = c;
    sums[3] = d;
}

/** The same for two rows of weights. */
static inline void dtn_dsp_add_two_rows(const uint32_t *inputs, size_t turns, const int8_t *weights, size_t pitch,
                                        uint32_t sums[2])
{
    const uint32_t *in = inputs;
    const uint32_t *end = inputs + 8 * turns;
    uint32_t a = sums[0];
    uint32_t b = sums[1];
    uint32_t x;
    uint32_t y;
    uint32_t m;
    uint32_t n;
    do {
        DTN_DSP_4(DTN_DSP_TWO_ROWS());
    } while (in != end);
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
 * Multiplies two rows of inputs by the pairs' rows of weights, which lie one behind the other, and stores the outputs,
 * of each two those of x last. Rows are of four elements or more.
 */
static inline void dtn_dsp_multiply_pairs(dtn_dsp_pairs_t *pairs, const int8_t *weights, size_t depth)
{
    /* All registers but r7 and r9. */
    register dtn_dsp_pairs_t *p __asm__("lr") = pairs;
    register const int8_t *w __asm__("r0") = weights;
    register const int8_t *v __asm__("r1") = weights + depth;
    register const uint32_t *in __asm__("r2");
    register int32_t a __asm__("r4");
    register int32_t b __asm__("r5");
    register int32_t c __asm__("r6");
    register int32_t d __asm__("r8");
    register int32_t m __asm__("r3");
    register int32_t n __asm__("r10");
    register int32_t low __asm__("r11");
    register int32_t top __asm__("r12");
    __asm__ volatile(
        DTN_DSP_PAIRS
        : [w] "+&r"(w), [v] "+&r"(v), [in] "=&r"(in), [a] "=&r"(a), [b] "=&r"(b), [c] "=&r"(c), [d] "=&r"(d),
          [m] "=&r"(m), [n] "=&r"(n), [low] "=&r"(low), [top] "=&r"(top)
        : [p] "r"(p), [kept] "i"(offsetof(dtn_dsp_pairs_t, kept)), [two] "i"(offsetof(dtn_dsp_pairs_t, two)),
          [inputs] "i"(offsetof(dtn_dsp_pairs_t, inputs)), [last] "i"(offsetof(dtn_dsp_pairs_t, last)),
          [end] "i"(offsetof(dtn_dsp_pairs_t, end)), [missing] "i"(offsetof(dtn_dsp_pairs_t, missing)),
          [rest] "i"(offsetof(dtn_dsp_pairs_t, rest)), [outputs] "i"(offsetof(dtn_dsp_pairs_t, outputs)),
          [addend] "i"(offsetof(dtn_dsp_pairs_t, addend)), [left] "i"(offsetof(dtn_dsp_pairs_t, left))
        : "cc", "memory");
}

/** Multiplies a row of inputs, of whole fours and 16 or more, by the fours' rows of weights; stores the outputs. */
static inline void dtn_dsp_multiply_fours(dtn_dsp_fours_t *fours, const int8_t *weights, size_t pitch)
{
    const int32_t *bias = fours->bias;
    int8_t *out = fours->output;
    const uint32_t *const inputs = fours->inputs;
    const uint32_t *const sixteen = fours->last;
    const uint32_t *const end = fours->end;
    const int32_t addend = fours->addend;
    const int32_t factor[2] = {fours->factor[0], fours->factor[1]};
    for (size_t left = fours->left; left != 0; left--) {
        const uint32_t *in = inputs;
        const int8_t *last = weights + 3 * pitch;
        int32_t a = bias[0];
        int32_t b = bias[1];
        int32_t c = bias[2];
        int32_t d = bias[3];
        int32_t x;
        int32_t y;
        int32_t m;
        int32_t n;
        do {
            DTN_DSP_4(DTN_DSP_FOUR_ROWS());
        } while (in != sixteen);
        while (in != end) {
            DTN_DSP_FOUR_ROWS();
        }
        m = factor[0];
        n = factor[1];
        weights = last;
        bias += 4;
        int32_t low;
        int32_t top;
        DTN_DSP_STORE(a, addend);
        DTN_DSP_STORE(b, addend);
        DTN_DSP_STORE(c, addend);
        DTN_DSP_STORE(d, addend);
    }
}

#else
#include "emulated_loops.h"
#endif

#endif /* DTN_DSP_LOOPS_H */
