/**
 * @file
 * Depthwise convolutions with kernels of three taps along an axis, on which outputs are neighbours: three share what
 * they read.
 */
#pragma once

#include "depthwise_chunk_mve.h"

/* Along, the padding after the map is as large as before it. Across there is no hole in a window, and no window in the
 * padding.
 */
static bool has_triples(const dtn_cm_axis_t *along, const dtn_cm_axis_t *across)
{
    return along->kernel == 3 && along->out + 2 == along->in + 2 * along->pad && along->stride == 1 &&
           along->dilation == 1 && along->pad <= 1 && along->out >= TRIPLE && across->dilation == 1 &&
           across->pad < across->kernel;
}

/* How many triples make a map, of which the last of a line may have outputs of the one before. */
static int32_t triples_along(const dtn_cm_axis_t *axis, const dtn_cm_axis_t *across)
{
    return (axis->out + TRIPLE - 1) / TRIPLE * across->out;
}

/* Five neighbours, which three outputs read: the first and the last may lie in the padding, and stay where they are. */
typedef struct {
    const int8_t *first;
    const int8_t *middle; /* the second, with the third and fourth behind it */
    const int8_t *last;
    size_t first_step; /* from row to row */
    size_t last_step;
} columns_t;

#if defined(__OPTIMIZE__)
/*
 * Sums over the rows of a kernel of three columns: per row three weights and five inputs are read for nine products.
 * MVE has no multiplication of vectors that adds, and widening loads need their address in r0 to r7.
 *
 *   q0 a, q1 b, q2 c      sums of the three outputs
 *   q3, q4, q5            weights of a row
 *   q6, q7                an input; a product
 *   lr                    rows that are left
 */
static inline sums_t three_outputs(columns_t columns, const int8_t *weights, int32_t rows, size_t column, size_t row,
                                   int32x4_t starts)
{
    register int32x4_t a __asm__("q0") = starts;
    register int32x4_t b __asm__("q1") = starts;
    register int32x4_t c __asm__("q2") = starts;
    /* From the fourth column to the second of the next row. */
    const size_t back = row - 2 * column;
    register int32_t left __asm__("lr") = rows;
    __asm__ volatile("wls lr, lr, 2f\n"
                     "1:\n"
                     "vldrb.s32 q3, [%[w]], #4\n"
                     "vldrb.s32 q6, [%[first]]\n"
                     "add %[first], %[first], %[first_step]\n"
                     "vmul.i32 q7, q6, q3\n"
                     "vldrb.s32 q6, [%[middle]]\n"
                     "vadd.i32 q0, q0, q7\n"
                     "vldrb.s32 q4, [%[w]], #4\n"
                     "vmul.i32 q7, q6, q3\n"
                     "add %[middle], %[middle], %[column]\n"
                     "vadd.i32 q1, q1, q7\n"
                     "vmul.i32 q7, q6, q4\n"
                     "vldrb.s32 q6, [%[middle]]\n"
                     "vadd.i32 q0, q0, q7\n"
                     "vmul.i32 q7, q6, q3\n"
                     "vldrb.s32 q5, [%[w]], #4\n"
                     "vadd.i32 q2, q2, q7\n"
                     "vmul.i32 q7, q6, q4\n"
                     "add %[middle], %[middle], %[column]\n"
                     "vadd.i32 q1, q1, q7\n"
                     "vmul.i32 q7, q6, q5\n"
                     "vldrb.s32 q6, [%[middle]]\n"
                     "vadd.i32 q0, q0, q7\n"
                     "vmul.i32 q7, q6, q4\n"
                     "add %[middle], %[middle], %[back]\n"
                     "vadd.i32 q2, q2, q7\n"
                     "vmul.i32 q7, q6, q5\n"
                     "vldrb.s32 q6, [%[last]]\n"
                     "vadd.i32 q1, q1, q7\n"
                     "vmul.i32 q7, q6, q5\n"
                     "add %[last], %[last], %[last_step]\n"
                     "vadd.i32 q2, q2, q7\n"
                     "le lr, 1b\n"
                     "2:\n"
                     : "+&w"(a), "+&w"(b), "+&w"(c), "+&r"(left), [w] "+&l"(weights), [first] "+&l"(columns.first),
                       [middle] "+&l"(columns.middle), [last] "+&l"(columns.last)
                     : [column] "r"(column), [back] "r"(back), [first_step] "r"(columns.first_step),
                       [last_step] "r"(columns.last_step)
                     : "q3", "q4", "q5", "q6", "q7", "memory");
    return (sums_t){a, b, c};
}
#else
/* The same without assembler: unoptimised, compilers have too few registers for its operands. */
static sums_t three_outputs(columns_t columns, const int8_t *weights, int32_t rows, size_t column, size_t row,
                            int32x4_t starts)
{
    int32x4_t sums[] = {starts, starts, starts};
    for (; rows > 0; rows--) {
        const int8_t *const places[] = {columns.first, columns.middle, columns.middle + column,
                                        columns.middle + 2 * column, columns.last};
        for (size_t i = 0; i < TRIPLE; i++) {
            for (size_t j = 0; j < TRIPLE; j++) {
                int32x4_t products = vmulq_s32(vldrbq_s32(places[i + j]), vldrbq_s32(weights + j * LANES));
                sums[i] = vaddq_s32(sums[i], products);
            }
        }
        weights += TRIPLE * LANES;
        columns.first += columns.first_step;
        columns.middle += row;
        columns.last += columns.last_step;
    }
    return (sums_t){sums[0], sums[1], sums[2]};
}
#endif

/* All outputs of an image, in lines along an axis. */
static __attribute__((noinline)) void lines_of_triples(const chunk_t *chunk, const dtn_cm_axis_t *along,
                                                       const dtn_cm_axis_t *across, const int8_t *input, int8_t *output)
{
    const size_t step = along->in_step;
    const size_t row = across->in_step;
    const size_t out_step = along->out_step;
    const int32_t kernel = across->kernel;
    const bool is_padded = along->pad == 1;
    const int8_t zero_point = (int8_t)-chunk->p->in_offset;
    const int8_t padding[LANES] = {zero_point, zero_point, zero_point, zero_point};
    const int32x4_t whole = starts_of(chunk, chunk->weights, kernel * TRIPLE);
    for (int32_t line = 0, start = -across->pad; line < across->out; line++, start += across->stride) {
        /* The rows of the kernel that lie on the map. */
        const int32_t skipped = start < 0 ? -start : 0;
        const int32_t after = across->in - start;
        const int32_t count = (after < kernel ? after : kernel) - skipped;
        const int8_t *weights = chunk->weights + skipped * TRIPLE * LANES;
        const int32x4_t starts = count == kernel ? whole : starts_of(chunk, weights, count * TRIPLE);
        const int8_t *x = input + (size_t)(start + skipped) * row + (is_padded ? 0 : step);
        int8_t *to = output;
        columns_t columns = {is_padded ? padding : x - step, x, x + TRIPLE * step, is_padded ? 0 : row, row};
        int32_t left = along->out;
        for (; left > TRIPLE; left -= TRIPLE) {
            store_three(&chunk->lanes, three_outputs(columns, weights, count, step, row, starts), to, out_step);
            to += TRIPLE * out_step;
            columns.middle = columns.last;
            columns.first = columns.middle - step;
            columns.first_step = row;
            columns.last += TRIPLE * step;
        }
        /* Some of the last are made once more when there are less than three. */
        const size_t again = (size_t)(TRIPLE - left);
        columns.middle -= again * step;
        columns.first -= again * step;
        columns.last = is_padded ? padding : columns.last - again * step;
        columns.last_step = is_padded ? 0 : row;
        to -= again * out_step;
        store_three(&chunk->lanes, three_outputs(columns, weights, count, step, row, starts), to, out_step);
        output += across->out_step;
    }
}

/* The axis whose triples have less left over, or NULL when there are none. */
static const dtn_cm_axis_t *axis_of_triples(const dtn_cm_axis_t *x, const dtn_cm_axis_t *y)
{
    bool is_x = has_triples(x, y);
    bool is_y = has_triples(y, x);
    if (is_x && (!is_y || triples_along(x, y) <= triples_along(y, x))) {
        return x;
    }
    return is_y ? y : NULL;
}
