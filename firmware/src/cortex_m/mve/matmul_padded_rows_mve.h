/**
 * @file
 * Padded rows, for int8 and packed weights: rows of two or three vectors of inputs by four channels, two at a time.
 *
 * The file that includes it defines DTN_CM_LOAD_TWO and DTN_CM_LOAD_THREE. They load the weights of two channels, from
 * %[w] and %[v], with zeros behind each row. The first loads to q0, q1 and q2, q3, the second to q0, q1, q2 and q3, q4,
 * q5. The predicate has the elements of a row's last vector.
 */
#pragma once

#include "matmul_outputs_mve.h"

/* Two channels, and the rows that they meet. */
typedef struct {
    const int8_t *w; /* weights of the first channel */
    const int8_t *v; /* and of the second */
    size_t tail;     /* elements of a row's last vector */
    const int8_t *x; /* the first row of inputs */
    size_t rows;
} two_channels_t;

/*
 * Sums of two channels for each row, two rows in a turn. Those of the next row are four words behind.
 *
 *   q0 to q3              weights; q0 to q5 for rows of three vectors
 *   q6, q7                inputs
 *   r0, r2                the sums
 *   lr                    pairs of rows that are left; the carry flag is set for an odd row behind them
 */
#define SUMS_OF_ROWS(load, row)                                                                                        \
    const int8_t *x = p->x;                                                                                            \
    register size_t left __asm__("lr") = p->rows;                                                                      \
    __asm__ volatile("vctp.8 %[tail]\n" load "lsrs.w lr, lr, #1\n"                                                     \
                     "wls lr, lr, 2f\n"                                                                                \
                     "1:\n" row row "le lr, 1b\n"                                                                      \
                     "2:\n"                                                                                            \
                     "bcc 3f\n" row "3:\n"                                                                             \
                     : [x] "+&r"(x), [sums] "+&r"(sums), "+&r"(left)                                                   \
                     : [w] "r"(p->w), [v] "r"(p->v), [tail] "r"(p->tail)                                               \
                     : "r0", "r2", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", DTN_CM_PREDICATE "cc", "memory")

DTN_CM_ALONE static void sums_of_two_vectors(const two_channels_t *p, int32_t *sums)
{
    SUMS_OF_ROWS(DTN_CM_LOAD_TWO, "vldrb.8 q6, [%[x]], #16\n"
                                  "vmladav.s8 r0, q6, q0\n"
                                  "vldrb.8 q7, [%[x]], #16\n"
                                  "vmladav.s8 r2, q6, q2\n"
                                  "vmladava.s8 r0, q7, q1\n"
                                  "vmladava.s8 r2, q7, q3\n"
                                  "strd r0, r2, [%[sums]], #16\n");
}

DTN_CM_ALONE static void sums_of_three_vectors(const two_channels_t *p, int32_t *sums)
{
    SUMS_OF_ROWS(DTN_CM_LOAD_THREE, "vldrb.8 q6, [%[x]], #16\n"
                                    "vmladav.s8 r0, q6, q0\n"
                                    "vldrb.8 q7, [%[x]], #16\n"
                                    "vmladav.s8 r2, q6, q3\n"
                                    "vldrb.8 q6, [%[x]], #16\n"
                                    "vmladava.s8 r0, q7, q1\n"
                                    "vmladava.s8 r2, q7, q4\n"
                                    "vmladava.s8 r0, q6, q2\n"
                                    "vmladava.s8 r2, q6, q5\n"
                                    "strd r0, r2, [%[sums]], #16\n");
}

/* Outputs of four channels for each row of sums. */
static inline void store_columns(const int32_t *sums, int32x4_t starts, const dtn_cm_lanes_t *lanes, size_t rows,
                                 int8_t *output, size_t pitch)
{
    const dtn_cm_lanes_t own = *lanes;
    do {
        vstrbq_s32(output, dtn_cm_scaled_lanes(vaddq_s32(vldrwq_s32(sums), starts), &own));
        sums += DTN_MVE_LANES;
        output += pitch;
        rows--;
    } while (rows != 0);
}

/* All channels of a block. From one pair of channels to the next are `pair` bytes of weights. */
static __attribute__((noinline)) void padded_rows(const dtn_cm_block_t *block, size_t pair, const int8_t *input,
                                                  size_t rows, int8_t *output, size_t pitch)
{
    int32_t sums[DTN_CM_PADDED_ROWS * DTN_MVE_LANES];
    const size_t depth = block->depth;
    const bool are_two = depth <= 32;
    factors_t factors;
    find_factors(block, &factors);
    dtn_cm_lanes_t lanes = common_lanes(block->scale);
    two_channels_t two = {.tail = depth - (are_two ? 16 : 32), .x = input, .rows = rows};
    for (size_t j = 0; j < block->count; j += DTN_MVE_LANES) {
        /* Behind the last four channels fewer than four are left: they are made with those before once more. */
        const size_t first = block->count - j < DTN_MVE_LANES ? block->count - DTN_MVE_LANES : j;
        const size_t at = factors.step == 0 ? 0 : first;
        two.w = block->weights + first / 2 * pair;
        for (int32_t *to = sums; to != sums + DTN_MVE_LANES; to += 2) {
            two.v = two.w + depth;
            if (are_two) {
                sums_of_two_vectors(&two, to);
            } else {
                sums_of_three_vectors(&two, to);
            }
            two.w += pair;
        }
        lanes.multipliers = vldrwq_s32(factors.multipliers + at);
        lanes.shifts = vldrwq_s32(factors.shifts + at);
        store_columns(sums, vldrwq_s32(block->starts + first), &lanes, rows, output + first, pitch);
    }
}

/* Rows of a product, which are copied unless they are padded rows already, by a block of channels. */
static __attribute__((noinline)) void multiply_padded(const dtn_cm_product_t *p, const dtn_cm_block_t *block,
                                                      size_t pair)
{
    int8_t buffer[DTN_CM_PADDED_BYTES];
    const size_t wide = dtn_cm_padded_bytes(block->depth);
    const bool are_copied = p->input_pitch != wide || block->depth != wide;
    size_t count;
    for (size_t row = 0; row < p->rows; row += count) {
        const int8_t *rows = p->input + row * p->input_pitch;
        count = p->rows - row < DTN_CM_PADDED_ROWS ? p->rows - row : DTN_CM_PADDED_ROWS;
        for (size_t i = 0; i < count && are_copied; i++) {
            dtn_cm_copy_bytes(buffer + i * wide, rows + i * p->input_pitch, block->depth);
        }
        padded_rows(block, pair, are_copied ? buffer : rows, count, p->output + block->first + row * p->output_pitch,
                    p->output_pitch);
    }
}
