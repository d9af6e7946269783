#include "../matmul_rows_s16.h"
#include "dot_product_s16_mve.h"
#include "matmul_pairs_mve.h"
#include "requantize_s16_mve.h"

/* Channels of a block, rows of inputs that meet the same weights at once, elements of a turn, and lanes of a sum. */
enum { BLOCK = 16, TRIPLE = 3, TURN = 8, LANES = 4 };

/* Sums of a block's channels for each of three rows. */
typedef int32_t sums_t[TRIPLE][BLOCK];

/* The factors of a block's channels, as dtn_mve_factors_s16_t has them, and the limits of the output. */
typedef struct {
    int32_t multipliers[BLOCK];
    int32_t low[BLOCK];
    int32_t high[BLOCK];
    int32_t shifts[BLOCK];
    int32_t tops[BLOCK];
    int32_t lo[LANES];
    int32_t hi[LANES];
} factors_t;

static void find_factors(const dtn_cm_scale_s16_t *scale, size_t first, size_t count, factors_t *factors)
{
    for (size_t j = 0; j < count; j += LANES) {
        const mve_pred16_t there = vctp32q((uint32_t)(count - j));
        const dtn_mve_factors_s16_t own = dtn_mve_factors_s16(vldrwq_z_s32(scale->multipliers + first + j, there),
                                                              vldrwq_z_s32(scale->shifts + first + j, there),
                                                              vldrwq_z_s32(scale->bias + first + j, there));
        vstrwq_s32(factors->multipliers + j, own.multipliers);
        vstrwq_s32(factors->low + j, own.low);
        vstrwq_s32(factors->high + j, own.high);
        vstrwq_s32(factors->shifts + j, own.shifts);
        vstrwq_s32(factors->tops + j, own.tops);
    }
    vstrwq_s32(factors->lo, vdupq_n_s32(scale->lo));
    vstrwq_s32(factors->hi, vdupq_n_s32(scale->hi));
}

/* Sums of three rows of inputs with `pairs` pairs of rows of weights, all of 8 elements or more, in turns of 8. */
static void add_pairs(const int16_t *row, size_t pitch, const int8_t *weights, size_t depth, size_t pairs,
                      int32_t *sums)
{
    /* Elements that whole turns have. */
    const size_t gone = (depth + TURN - 1U) / TURN * TURN;
    const int32_t end = (int32_t)(uintptr_t)(sums + 2 * pairs);
    const int32x4_t numbers = dtn_mve_vector((int32_t)(2 * gone), (int32_t)depth - TURN, (int32_t)(gone - depth), end);
    register const int16_t *x __asm__("r1") = row;
    register const int16_t *y __asm__("r3") = row + pitch;
    register const int16_t *z __asm__("r5") = row + 2 * pitch;
    register const int8_t *w __asm__("r6") = weights;
    register int32_t *to __asm__("r11") = sums;
    __asm__ volatile(DTN_MVE_ALL_PAIRS("vldrb.s16", "8", "vldrh.16", "s16", "wlstp.16 lr, lr, 3f\n")
                     : "+&r"(x), "+&r"(y), "+&r"(z), "+&r"(w), "+&r"(to)
                     : [numbers] "w"(numbers)
                     : "r0", "r2", "r4", "r8", "r10", "r12", "lr", "q0", "q1", "q2", "q3", "q5", "cc", "memory");
}

/*
 * Outputs of four channels for some rows.
 *
 *   q0 to q4              the factors, in their order
 *   q5, q6                lower and upper halves of values; q6 is the output
 *   q7                    free, then a limit
 *   lr                    rows that are left
 */
static inline void store_four(const factors_t *factors, size_t j, const int32_t *sums, int16_t *output, size_t pitch,
                              size_t rows)
{
    const int32_t *own = factors->multipliers + j;
    const size_t step = 2 * pitch;
    /* clang-format off */
    __asm__ volatile(
        "vldrw.32 q0, [%[own]]\n"
        "vldrw.32 q1, [%[own], %[low]]\n"
        "vldrw.32 q2, [%[own], %[high]]\n"
        "vldrw.32 q3, [%[own], %[shifts]]\n"
        "vldrw.32 q4, [%[own], %[tops]]\n"
        "dls lr, %[rows]\n"
        "1:\n"
        "vldrw.32 q5, [%[sums]], #64\n"
        "vmulh.s32 q6, q5, q0\n"
        "vmul.i32 q5, q5, q0\n"
        DTN_MVE_ADD_BIAS_S16("q5", "q6", "q1", "q2", "%[one]")
        DTN_MVE_ROUND_S16("q5", "q6", "q3", "q4", "q7", "%[half]")
        "vldrw.32 q7, [%[limits]]\n"
        "vmax.s32 q6, q6, q7\n"
        "vldrw.32 q7, [%[limits], #16]\n"
        "vmin.s32 q6, q6, q7\n"
        "vstrh.32 q6, [%[output]]\n"
        "add %[output], %[output], %[step]\n"
        "le lr, 1b\n"
        : [sums] "+&r"(sums), [output] "+&l"(output)
        : [own] "r"(own), [rows] "r"(rows), [one] "r"(1), [half] "r"(DTN_MVE_HALF), [limits] "r"(factors->lo),
          [step] "r"(step), [low] "i"(offsetof(factors_t, low)), [high] "i"(offsetof(factors_t, high)),
          [shifts] "i"(offsetof(factors_t, shifts)), [tops] "i"(offsetof(factors_t, tops))
        : "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "lr", DTN_CM_PREDICATE "cc", "memory");
    /* clang-format on */
}

/* Outputs of a block's channels, four or more, for some rows. The last four may have some that are made once more. */
static DTN_CM_ALONE void store_rows(const factors_t *factors, sums_t sums, size_t count, int16_t *output, size_t pitch,
                                    size_t rows)
{
    for (size_t j = 0; j < count; j += LANES) {
        const size_t first = count - j < LANES ? count - LANES : j;
        store_four(factors, first, sums[0] + first, output + first, pitch, rows);
    }
}

/* A block of channels, four or more, of a product with rows of 8 to DTN_CM_S16_SHORT elements. */
static void multiply_block(const dtn_cm_product_s16_t *p, size_t first, size_t count)
{
    const int8_t *weights = p->weights + first * p->depth;
    const int16_t *row = p->input;
    int16_t *output = p->output + first;
    size_t left = p->rows;
    factors_t factors;
    sums_t sums;
    find_factors(&p->scale, first, count, &factors);
    for (; left >= TRIPLE; left -= TRIPLE) {
        add_pairs(row, p->input_pitch, weights, p->depth, count / 2, sums[0]);
        if (count % 2 != 0) {
            /* An odd channel at the end is made with the one before once more. */
            add_pairs(row, p->input_pitch, weights + (count - 2) * p->depth, p->depth, 1, &sums[0][count - 2]);
        }
        store_rows(&factors, sums, count, output, p->output_pitch, TRIPLE);
        row += TRIPLE * p->input_pitch;
        output += TRIPLE * p->output_pitch;
    }
    for (; left > 0; left--) {
        for (size_t j = 0; j < count; j += LANES) {
            const size_t at = count - j < LANES ? count - LANES : j;
            vstrwq_s32(&sums[0][at], dtn_mve_four_sums_s16(row, weights + at * p->depth, p->depth));
        }
        store_rows(&factors, sums, count, output, p->output_pitch, 1);
        row += p->input_pitch;
        output += p->output_pitch;
    }
}

void dtn_cm_multiply_s16(const dtn_cm_product_s16_t *p)
{
    if (p->depth < TURN || p->depth > DTN_CM_S16_SHORT || p->channels < LANES ||
        p->scale.least_shift < DTN_CM_S16_LEAST_SHIFT) {
        dtn_cm_multiply_rows_s16(p);
        return;
    }
    for (size_t first = 0; first < p->channels; first += BLOCK) {
        const size_t left = p->channels - first;
        /* The last block has four channels or more, of which some may be made once more. */
        const size_t again = left < LANES ? LANES - left : 0;
        multiply_block(p, first - again, left + again < BLOCK ? left + again : BLOCK);
    }
}
