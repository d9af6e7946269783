/**
 * @file
 * Convolutions of 3x3 with 16, 32 or 64 input channels: the windows of three neighbours in a line overlap, so inputs
 * are loaded once for all of them, from where they are. Three pixels whose windows are partly in the padding have
 * their inputs copied to a buffer, with the padding.
 *
 * Each turn of the loop is a row of the kernel, by pairs of rows of weights w and v.
 *
 *   x, w, v               inputs, and weights
 *   r0 xw, r2 xv, r4 yw, r8 yv, r10 zw, r12 zv   sums of the three pixels x, y and z
 *   lr                    rows that are left
 *   q0 to q7              16 channels of pixels, and 16 weights of w and of v
 */
#pragma once

#include "matmul_outputs_mve.h"

/* Bytes of the buffer for the inputs of three pixels. */
enum { NEIGHBOURS = 3 * 5 * 64 };

/* clang-format off */

/* Loads 16 channels of a pixel, or 16 weights of one of both rows, and multiplies them. */
#define DTN_CM_3X3_PIXEL(to, pixel, channels, first) "vldrw.32 " to ", [%[x], #" pixel "*" channels "+" first "]\n"
#define DTN_CM_3X3_WEIGHTS(to, row, place) "vldrw.32 " to ", [%[" row "]" place "\n"
#define DTN_CM_3X3_DOT(sum, weights, pixel) "vmladava.s8 " sum ", " weights ", " pixel "\n"

/* Where the weights of a column are. The load of the first one moves the address to the next row of the kernel. */
#define DTN_CM_3X3_FIRST(channels) "], #3*" channels
#define DTN_CM_3X3_AT(column, channels, first) ", #(" column "-3)*" channels "+" first "]"

/*
 * 16 channels from `first` on, with stride 1 or 2; `place` is that of the first column's weights. Loads are between
 * multiplications, which use another unit.
 */
#define DTN_CM_3X3_STRIDE_1(place, channels, first)                                                                    \
    DTN_CM_3X3_PIXEL("q0", "0", channels, first)                                                                       \
    DTN_CM_3X3_WEIGHTS("q3", "w", place)                                                                               \
    DTN_CM_3X3_DOT("r0", "q3", "q0")                                                                                   \
    DTN_CM_3X3_WEIGHTS("q4", "v", place)                                                                               \
    DTN_CM_3X3_DOT("r2", "q4", "q0")                                                                                   \
    DTN_CM_3X3_PIXEL("q1", "1", channels, first)                                                                       \
    DTN_CM_3X3_DOT("r4", "q3", "q1")                                                                                   \
    DTN_CM_3X3_PIXEL("q2", "2", channels, first)                                                                       \
    DTN_CM_3X3_DOT("r8", "q4", "q1")                                                                                   \
    DTN_CM_3X3_WEIGHTS("q5", "w", DTN_CM_3X3_AT("1", channels, first))                                                 \
    DTN_CM_3X3_DOT("r10", "q3", "q2")                                                                                  \
    DTN_CM_3X3_WEIGHTS("q6", "v", DTN_CM_3X3_AT("1", channels, first))                                                 \
    DTN_CM_3X3_DOT("r12", "q4", "q2")                                                                                  \
    DTN_CM_3X3_PIXEL("q0", "3", channels, first)                                                                       \
    DTN_CM_3X3_DOT("r0", "q5", "q1")                                                                                   \
    DTN_CM_3X3_WEIGHTS("q3", "w", DTN_CM_3X3_AT("2", channels, first))                                                 \
    DTN_CM_3X3_DOT("r2", "q6", "q1")                                                                                   \
    DTN_CM_3X3_WEIGHTS("q4", "v", DTN_CM_3X3_AT("2", channels, first))                                                 \
    DTN_CM_3X3_DOT("r4", "q5", "q2")                                                                                   \
    DTN_CM_3X3_PIXEL("q1", "4", channels, first)                                                                       \
    DTN_CM_3X3_DOT("r8", "q6", "q2")                                                                                   \
    DTN_CM_3X3_DOT("r10", "q5", "q0")                                                                                  \
    DTN_CM_3X3_DOT("r12", "q6", "q0")                                                                                  \
    DTN_CM_3X3_DOT("r0", "q3", "q2")                                                                                   \
    DTN_CM_3X3_DOT("r2", "q4", "q2")                                                                                   \
    DTN_CM_3X3_DOT("r4", "q3", "q0")                                                                                   \
    DTN_CM_3X3_DOT("r8", "q4", "q0")                                                                                   \
    DTN_CM_3X3_DOT("r10", "q3", "q1")                                                                                  \
    DTN_CM_3X3_DOT("r12", "q4", "q1")
#define DTN_CM_3X3_STRIDE_2(place, channels, first)                                                                    \
    DTN_CM_3X3_PIXEL("q0", "0", channels, first)                                                                       \
    DTN_CM_3X3_WEIGHTS("q3", "w", place)                                                                               \
    DTN_CM_3X3_DOT("r0", "q3", "q0")                                                                                   \
    DTN_CM_3X3_WEIGHTS("q4", "v", place)                                                                               \
    DTN_CM_3X3_DOT("r2", "q4", "q0")                                                                                   \
    DTN_CM_3X3_PIXEL("q1", "2", channels, first)                                                                       \
    DTN_CM_3X3_DOT("r4", "q3", "q1")                                                                                   \
    DTN_CM_3X3_PIXEL("q2", "4", channels, first)                                                                       \
    DTN_CM_3X3_DOT("r8", "q4", "q1")                                                                                   \
    DTN_CM_3X3_WEIGHTS("q5", "w", DTN_CM_3X3_AT("1", channels, first))                                                 \
    DTN_CM_3X3_DOT("r10", "q3", "q2")                                                                                  \
    DTN_CM_3X3_WEIGHTS("q6", "v", DTN_CM_3X3_AT("1", channels, first))                                                 \
    DTN_CM_3X3_DOT("r12", "q4", "q2")                                                                                  \
    DTN_CM_3X3_PIXEL("q7", "1", channels, first)                                                                       \
    DTN_CM_3X3_DOT("r0", "q5", "q7")                                                                                   \
    DTN_CM_3X3_PIXEL("q0", "3", channels, first)                                                                       \
    DTN_CM_3X3_DOT("r2", "q6", "q7")                                                                                   \
    DTN_CM_3X3_PIXEL("q3", "5", channels, first)                                                                       \
    DTN_CM_3X3_DOT("r4", "q5", "q0")                                                                                   \
    DTN_CM_3X3_WEIGHTS("q4", "w", DTN_CM_3X3_AT("2", channels, first))                                                 \
    DTN_CM_3X3_DOT("r8", "q6", "q0")                                                                                   \
    DTN_CM_3X3_WEIGHTS("q7", "v", DTN_CM_3X3_AT("2", channels, first))                                                 \
    DTN_CM_3X3_DOT("r10", "q5", "q3")                                                                                  \
    DTN_CM_3X3_PIXEL("q0", "6", channels, first)                                                                       \
    DTN_CM_3X3_DOT("r12", "q6", "q3")                                                                                  \
    DTN_CM_3X3_DOT("r0", "q4", "q1")                                                                                   \
    DTN_CM_3X3_DOT("r2", "q7", "q1")                                                                                   \
    DTN_CM_3X3_DOT("r4", "q4", "q2")                                                                                   \
    DTN_CM_3X3_DOT("r8", "q7", "q2")                                                                                   \
    DTN_CM_3X3_DOT("r10", "q4", "q0")                                                                                  \
    DTN_CM_3X3_DOT("r12", "q7", "q0")

#define DTN_CM_3X3_16(sixteen) sixteen(DTN_CM_3X3_FIRST("16"), "16", "0")
#define DTN_CM_3X3_NEXT(sixteen, channels, first) sixteen(DTN_CM_3X3_AT("0", channels, first), channels, first)
#define DTN_CM_3X3_32(sixteen)                                                                                         \
    sixteen(DTN_CM_3X3_FIRST("32"), "32", "0") DTN_CM_3X3_NEXT(sixteen, "32", "16")
#define DTN_CM_3X3_64(sixteen)                                                                                         \
    sixteen(DTN_CM_3X3_FIRST("64"), "64", "0") DTN_CM_3X3_NEXT(sixteen, "64", "16")                                    \
    DTN_CM_3X3_NEXT(sixteen, "64", "32") DTN_CM_3X3_NEXT(sixteen, "64", "48")

/*
 * Defines a function of the sums of a block of channels, an even number, for three pixels: `turn` is a row of the
 * kernel. `inputs` has that of the first pixel, and its rows are `pitch` bytes apart. In separate functions the
 * compiler has all registers for the operands.
 */
#define DTN_CM_3X3_SUMS(name, channels, turn)                                                                          \
    static __attribute__((noinline)) void name(const dtn_cm_block_t *block, const int8_t *inputs, size_t pitch,        \
                                               int32_t *sums)                                                          \
    {                                                                                                                  \
        const int8_t *w = block->weights;                                                                              \
        const int32_t *starts = block->starts;                                                                         \
        for (const int32_t *end = starts + block->count; starts != end; starts += 2) {                                 \
            const int8_t *x = inputs;                                                                                  \
            const int8_t *v = w + 9 * (channels);                                                                      \
            register int32_t xw __asm__("r0") = starts[0];                                                             \
            register int32_t xv __asm__("r2") = starts[1];                                                             \
            register int32_t yw __asm__("r4") = xw;                                                                    \
            register int32_t yv __asm__("r8") = xv;                                                                    \
            register int32_t zw __asm__("r10") = xw;                                                                   \
            register int32_t zv __asm__("r12") = xv;                                                                   \
            register size_t left __asm__("lr") = 3;                                                                    \
            __asm__ volatile("dls lr, lr\n"                                                                            \
                             "1:\n"                                                                                    \
                             turn                                                                                      \
                             "add %[x], %[x], %[pitch]\n"                                                              \
                             "le lr, 1b\n"                                                                             \
                             : [x] "+&r"(x), [w] "+&r"(w), [v] "+&r"(v), "+&r"(xw), "+&r"(xv), "+&r"(yw), "+&r"(yv),   \
                               "+&r"(zw), "+&r"(zv), "+&r"(left)                                                       \
                             : [pitch] "r"(pitch)                                                                      \
                             : "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "memory");                              \
            sums[0] = xw;                                                                                              \
            sums[1] = xv;                                                                                              \
            sums[DTN_CM_BLOCK] = yw;                                                                                   \
            sums[DTN_CM_BLOCK + 1] = yv;                                                                               \
            sums[2 * DTN_CM_BLOCK] = zw;                                                                               \
            sums[2 * DTN_CM_BLOCK + 1] = zv;                                                                           \
            sums += 2;                                                                                                 \
            w = v;                                                                                                     \
        }                                                                                                              \
    }

DTN_CM_3X3_SUMS(sums_of_16_channels, 16, DTN_CM_3X3_16(DTN_CM_3X3_STRIDE_1))
DTN_CM_3X3_SUMS(sums_of_32_channels, 32, DTN_CM_3X3_32(DTN_CM_3X3_STRIDE_1))
DTN_CM_3X3_SUMS(sums_of_64_channels, 64, DTN_CM_3X3_64(DTN_CM_3X3_STRIDE_1))
DTN_CM_3X3_SUMS(sums_of_16_channels_by_twos, 16, DTN_CM_3X3_16(DTN_CM_3X3_STRIDE_2))
DTN_CM_3X3_SUMS(sums_of_32_channels_by_twos, 32, DTN_CM_3X3_32(DTN_CM_3X3_STRIDE_2))

/* clang-format on */

/* True for convolutions that `convolve_3x3` takes. */
static bool takes_3x3(const dtn_cm_group_t *group)
{
    const dtn_cm_windows_t *p = group->p;
    const size_t inputs = group->inputs;
    const bool has_loop = p->stride_w == 1   ? inputs == 16 || inputs == 32 || inputs == 64
                          : p->stride_w == 2 ? inputs == 16 || inputs == 32
                                             : false;
    return has_loop && p->kernel_h == 3 && p->kernel_w == 3 && p->dilation_h == 1 && p->dilation_w == 1 &&
           group->joined && group->outputs % 2 == 0 && p->out_w >= DTN_CM_TRIPLE && group->scale.largest_shift < 0 &&
           ((uintptr_t)group->input | (uintptr_t)group->weights) % 4 == 0;
}

/* Copies the inputs of three pixels, of so many columns, whose first one is at (y, x); returns their pitch. */
static __attribute__((noinline)) size_t copy_neighbours(const dtn_cm_group_t *group, const int8_t *image, int32_t y,
                                                        int32_t x, int32_t columns, int8_t *to)
{
    const dtn_cm_windows_t *p = group->p;
    const size_t pixel = group->inputs;
    const size_t pitch = (size_t)columns * pixel;
    const int32_t first = x < 0 ? -x : 0;
    const int32_t end = p->in_w - x < columns ? p->in_w - x : columns;
    dtn_cm_fill_bytes(to, (int8_t)group->pad_value, 3 * pitch);
    for (int32_t row = y; row < y + 3 && first < end; row++) {
        if (row >= 0 && row < p->in_h) {
            const size_t from = (size_t)row * (size_t)p->in_w + (size_t)(x + first);
            dtn_cm_copy_bytes(to + (size_t)first * pixel, image + from * pixel, (size_t)(end - first) * pixel);
        }
        to += pitch;
    }
    return pitch;
}

/* All channels of three pixels, whose inputs start here. */
static void three_pixels(const dtn_cm_group_t *group, const int8_t *inputs, size_t pitch, int8_t *output)
{
    sums_t sums;
    const bool by_twos = group->p->stride_w == 2;
    dtn_cm_block_t block = {
        .weights = group->weights, .starts = group->bias, .depth = group->patch, .scale = &group->scale};
    for (; block.first < group->outputs; block.first += DTN_CM_BLOCK) {
        const size_t left = group->outputs - block.first;
        block.count = left < DTN_CM_BLOCK ? left : DTN_CM_BLOCK;
        if (group->inputs == 64) {
            sums_of_64_channels(&block, inputs, pitch, sums[0]);
        } else if (group->inputs == 32 && by_twos) {
            sums_of_32_channels_by_twos(&block, inputs, pitch, sums[0]);
        } else if (group->inputs == 32) {
            sums_of_32_channels(&block, inputs, pitch, sums[0]);
        } else if (by_twos) {
            sums_of_16_channels_by_twos(&block, inputs, pitch, sums[0]);
        } else {
            sums_of_16_channels(&block, inputs, pitch, sums[0]);
        }
        store_rows(&block, sums, false, true, output + block.first, (size_t)group->p->out_c);
        block.weights += DTN_CM_BLOCK * group->patch;
        block.starts += DTN_CM_BLOCK;
    }
}

/* All pixels, three at a time; the last three of a line may be in part those before them once more. */
static void convolve_3x3(const dtn_cm_group_t *group)
{
    int32_t buffer[NEIGHBOURS / 4];
    const dtn_cm_windows_t *p = group->p;
    const int32_t columns = 2 * p->stride_w + 3;
    const size_t pitch = (size_t)p->in_w * group->inputs;
    const int8_t *image = group->input;
    int8_t *output = group->output;
    for (int32_t b = 0; b < p->batches; b++) {
        for (int32_t oy = 0, y = -p->pad_h; oy < p->out_h; oy++, y += p->stride_h) {
            for (int32_t ox = 0; ox < p->out_w; ox += DTN_CM_TRIPLE) {
                const int32_t first = ox < p->out_w - DTN_CM_TRIPLE ? ox : p->out_w - DTN_CM_TRIPLE;
                const int32_t x = first * p->stride_w - p->pad_w;
                int8_t *to = output + (size_t)first * (size_t)p->out_c;
                if (y >= 0 && y + 3 <= p->in_h && x >= 0 && x + columns <= p->in_w) {
                    three_pixels(group, image + (size_t)y * pitch + (size_t)x * group->inputs, pitch, to);
                } else {
                    int8_t *copy = (int8_t *)buffer;
                    three_pixels(group, copy, copy_neighbours(group, image, y, x, columns, copy), to);
                }
            }
            output += (size_t)p->out_w * (size_t)p->out_c;
        }
        image += (size_t)p->in_h * pitch;
    }
}
