#include "../dot.h"
#include "rows.h"
#include "vectors.h"

/* Sums of a block's channels for each of three rows. */
typedef int32_t sums_t[DTN_CM_TRIPLE][DTN_CM_BLOCK];

/* ---- Sums ---- */

/*
 * Three rows of inputs by `pairs` pairs of rows of weights, all of more than 16 elements.
 *
 * Per turn of 16 elements five loads and six multiplications, ordered so that hardly any two that use the same unit
 * stand side by side. The first turn of a pair starts the sums, the last one is predicated. Sums must be in even
 * registers; r7 is left to the compiler, which may need it for its frame. What the end of a pair needs is in memory.
 */
static void add_pairs(const int8_t *const rows[DTN_CM_TRIPLE], const int8_t *weights, size_t depth, size_t pairs,
                      int32_t *sums)
{
    register const int8_t *x __asm__("r1") = rows[0];
    register const int8_t *y __asm__("r3") = rows[1];
    register const int8_t *z __asm__("r5") = rows[2];
    register const int8_t *w __asm__("r6") = weights;
    register int32_t *to __asm__("r11") = sums;
    /* How far a turn of rows has gone: from there back to the start of a row, and to that of the next. */
    const size_t gone = (depth + 15U) / 16U * 16U;
    const size_t steps[2] = {gone, gone - depth};
    const int32_t *const end = sums + 2 * pairs;
    __asm__ volatile(".p2align 2\n"
                     "1:\n"
                     "ldr lr, %[depth]\n"
                     "add r9, r6, lr\n"
                     "vldrb.8 q0, [r6], #16\n"
                     "vldrb.8 q2, [r1], #16\n"
                     "vmladav.s8 r0, q0, q2\n"
                     "vldrb.8 q1, [r9], #16\n"
                     "vmladav.s8 r2, q1, q2\n"
                     "vldrb.8 q3, [r3], #16\n"
                     "vmladav.s8 r4, q0, q3\n"
                     "vldrb.8 q2, [r5], #16\n"
                     "vmladav.s8 r8, q1, q3\n"
                     "sub lr, lr, #16\n"
                     "vmladav.s8 r10, q0, q2\n"
                     "vmladav.s8 r12, q1, q2\n"
                     "dlstp.8 lr, lr\n"
                     "2:\n"
                     "vldrb.8 q0, [r6], #16\n"
                     "vldrb.8 q2, [r1], #16\n"
                     "vmladava.s8 r0, q0, q2\n"
                     "vldrb.8 q1, [r9], #16\n"
                     "vmladava.s8 r2, q1, q2\n"
                     "vldrb.8 q3, [r3], #16\n"
                     "vmladava.s8 r4, q0, q3\n"
                     "vldrb.8 q2, [r5], #16\n"
                     "vmladava.s8 r8, q1, q3\n"
                     "vmladava.s8 r10, q0, q2\n"
                     "vmladava.s8 r12, q1, q2\n"
                     "letp lr, 2b\n"
                     "strd r0, r2, [r11], #8\n"
                     "strd r4, r8, [r11, #56]\n"
                     "strd r10, r12, [r11, #120]\n"
                     "ldrd r0, r2, %[steps]\n"
                     "ldr r4, %[end]\n"
                     "subs r1, r1, r0\n"
                     "subs r3, r3, r0\n"
                     "subs r5, r5, r0\n"
                     "sub r6, r9, r2\n"
                     "cmp r11, r4\n"
                     "bne 1b\n"
                     : "+r"(x), "+r"(y), "+r"(z), "+r"(w), "+r"(to)
                     : [depth] "m"(depth), [steps] "m"(steps), [end] "m"(end)
                     : "r0", "r2", "r4", "r8", "r9", "r10", "r12", "lr", "q0", "q1", "q2", "q3", "cc", "memory");
}

/* One row of inputs by four rows of weights. */
static inline int32x4_t four_sums(const int8_t *x, const int8_t *const rows[4], size_t depth)
{
    const int8_t *a = rows[0];
    const int8_t *b = rows[1];
    const int8_t *c = rows[2];
    const int8_t *d = rows[3];
    int32_t sums[4] = {0, 0, 0, 0};
    __asm__ volatile(".p2align 2\n"
                     "wlstp.8 lr, %[depth], 2f\n"
                     "1:\n"
                     "vldrb.8 q0, [%[x]], #16\n"
                     "vldrb.8 q1, [%[a]], #16\n"
                     "vmladava.s8 %[sum_a], q0, q1\n"
                     "vldrb.8 q2, [%[b]], #16\n"
                     "vmladava.s8 %[sum_b], q0, q2\n"
                     "vldrb.8 q1, [%[c]], #16\n"
                     "vmladava.s8 %[sum_c], q0, q1\n"
                     "vldrb.8 q2, [%[d]], #16\n"
                     "vmladava.s8 %[sum_d], q0, q2\n"
                     "letp lr, 1b\n"
                     "2:\n"
                     : [x] "+r"(x), [a] "+r"(a), [b] "+r"(b), [c] "+r"(c), [d] "+r"(d), [sum_a] "+Te"(sums[0]),
                       [sum_b] "+Te"(sums[1]), [sum_c] "+Te"(sums[2]), [sum_d] "+Te"(sums[3])
                     : [depth] "r"(depth)
                     : "q0", "q1", "q2", "lr", "memory");
    return vldrwq_s32(sums);
}

static int32_t total(const int8_t *row, size_t count)
{
    int32_t sum = 0;
    __asm__ volatile("wlstp.8 lr, %[count], 2f\n"
                     "1:\n"
                     "vldrb.8 q0, [%[row]], #16\n"
                     "vaddva.s8 %[sum], q0\n"
                     "letp lr, 1b\n"
                     "2:\n"
                     : [row] "+r"(row), [sum] "+Te"(sum)
                     : [count] "r"(count)
                     : "q0", "lr", "memory");
    return sum;
}

/* ---- Outputs ---- */

/* Factors of four channels from `channel` on, or of those that are there. */
static inline dtn_cm_lanes_t lanes_of(const dtn_cm_scale_t *scale, size_t channel, mve_pred16_t there)
{
    dtn_cm_lanes_t lanes = {.offset = scale->offset, .lo = vdupq_n_s32(scale->lo), .hi = vdupq_n_s32(scale->hi)};
    if (scale->step == 0) {
        lanes.multipliers = vdupq_n_s32(*scale->multipliers);
        lanes.shifts = vdupq_n_s32(*scale->shifts);
    } else {
        lanes.multipliers = vldrwq_z_s32(scale->multipliers + channel, there);
        lanes.shifts = vldrwq_z_s32(scale->shifts + channel, there);
    }
    return lanes;
}

/* Outputs of a row for any shifts. */
static void store_rarely(const dtn_cm_block_t *block, const int32_t *sums, int8_t *output)
{
    for (size_t j = 0; j < block->count; j++) {
        dtn_cm_factor_t factor = dtn_cm_factor(block->scale, block->first + j);
        output[j] = dtn_cm_scaled(block->scale, &factor, (uint32_t)sums[j] + (uint32_t)block->starts[j]);
    }
}

/* Outputs of three rows for four channels from `j` on, or for those that are there. */
static inline void store_lanes(const dtn_cm_block_t *block, sums_t sums, size_t j, mve_pred16_t there, int8_t *output,
                               size_t pitch)
{
    const dtn_cm_lanes_t lanes = lanes_of(block->scale, block->first + j, there);
    const int32x4_t starts = vldrwq_z_s32(block->starts + j, there);
    for (size_t i = 0; i < DTN_CM_TRIPLE; i++) {
        int32x4_t outputs = dtn_cm_scaled_lanes(vaddq_s32(vldrwq_s32(&sums[i][j]), starts), &lanes);
        vstrbq_p_s32(output + i * pitch + j, outputs, there);
    }
}

void dtn_cm_three_rows(const dtn_cm_block_t *given, const int8_t *const rows[DTN_CM_TRIPLE], const int32_t *more,
                       int8_t *output, size_t pitch)
{
    /* A copy, which no store to the output can change. */
    const dtn_cm_block_t block = *given;
    sums_t sums;
    add_pairs(rows, block.weights, block.depth, block.count / 2, sums[0]);
    if (block.count % 2 != 0) {
        /* An odd channel at the end is made with the one before once more. */
        size_t first = block.count - 2;
        add_pairs(rows, block.weights + first * block.depth, block.depth, 1, &sums[0][first]);
    }
    if (more != NULL) {
        for (size_t i = 0; i < DTN_CM_TRIPLE; i++) {
            for (size_t j = 0; j < block.count; j += 4) {
                vstrwq_s32(&sums[i][j], vaddq_n_s32(vldrwq_s32(&sums[i][j]), more[i]));
            }
        }
    }
    if (block.scale->largest_shift >= 0) {
        for (size_t i = 0; i < DTN_CM_TRIPLE; i++) {
            store_rarely(&block, sums[i], output + i * pitch);
        }
        return;
    }
    for (size_t j = 0; j < block.count; j += 4) {
        store_lanes(&block, sums, j, vctp32q(block.count - j), output, pitch);
    }
}

void dtn_cm_one_row(const dtn_cm_block_t *given, const int8_t *row, int32_t more, int8_t *output)
{
    const dtn_cm_block_t block = *given;
    int32_t sums[DTN_CM_BLOCK];
    for (size_t j = 0; j < block.count; j += 4) {
        const int8_t *rows[DTN_CM_ROWS];
        dtn_cm_rows_of(block.weights, block.depth, j, block.count, rows);
        int32x4_t four = vaddq_n_s32(four_sums(row, rows, block.depth), more);
        if (block.scale->largest_shift >= 0) {
            vstrwq_s32(&sums[j], four);
            continue;
        }
        mve_pred16_t there = vctp32q(block.count - j);
        const dtn_cm_lanes_t lanes = lanes_of(block.scale, block.first + j, there);
        four = vaddq_s32(four, vldrwq_z_s32(block.starts + j, there));
        vstrbq_p_s32(output + j, dtn_cm_scaled_lanes(four, &lanes), there);
    }
    if (block.scale->largest_shift >= 0) {
        store_rarely(&block, sums, output);
    }
}

/* ---- Short rows: the weights of four channels stay in registers ---- */

/* Four numbers as a vector. */
static inline int32x4_t vector_of(int32_t a, int32_t b, int32_t c, int32_t d)
{
    int32x4_t vector;
    __asm__("vmov %q[vector][2], %q[vector][0], %[a], %[c]\n"
            "vmov %q[vector][3], %q[vector][1], %[b], %[d]\n"
            : [vector] "=&w"(vector)
            : [a] "r"(a), [b] "r"(b), [c] "r"(c), [d] "r"(d));
    return vector;
}

void dtn_cm_short_rows(const dtn_cm_block_t *given, const int8_t *input, size_t input_pitch, size_t rows,
                       int8_t *output, size_t output_pitch)
{
    const dtn_cm_block_t block = *given;
    const mve_pred16_t within = vctp8q(block.depth);
    for (size_t j = 0; j < block.count; j += 4) {
        const int8_t *w[DTN_CM_ROWS];
        dtn_cm_rows_of(block.weights, block.depth, j, block.count, w);
        const int8x16_t a = vldrbq_z_s8(w[0], within);
        const int8x16_t b = vldrbq_z_s8(w[1], within);
        const int8x16_t c = vldrbq_z_s8(w[2], within);
        const int8x16_t d = vldrbq_z_s8(w[3], within);
        const mve_pred16_t there = vctp32q(block.count - j);
        const dtn_cm_lanes_t lanes = lanes_of(block.scale, block.first + j, there);
        const int32x4_t starts = vldrwq_z_s32(block.starts + j, there);
        const int8_t *x = input;
        int8_t *to = output + j;
        for (size_t left = rows; left != 0; left--) {
            int8x16_t row = vldrbq_z_s8(x, within);
            int32x4_t sums =
                vector_of(vmladavq_s8(row, a), vmladavq_s8(row, b), vmladavq_s8(row, c), vmladavq_s8(row, d));
            vstrbq_p_s32(to, dtn_cm_scaled_lanes(vaddq_s32(sums, starts), &lanes), there);
            x += input_pitch;
            to += output_pitch;
        }
    }
}

/* ---- The product ---- */

/* What the input's offset adds to the sums of a channel. */
static uint32_t share_of_inputs(const dtn_cm_product_t *p, size_t channel)
{
    int32_t weights = total(p->weights + channel * p->depth, p->depth) + (int32_t)p->depth * p->weight_offset;
    return (uint32_t)(weights * p->input_offset);
}

/* What the weights' offset adds to the sums of a row. */
static int32_t share_of_weights(const dtn_cm_product_t *p, size_t row)
{
    return p->weight_offset == 0 ? 0 : total(p->input + row * p->input_pitch, p->depth) * p->weight_offset;
}

static void add_block(const dtn_cm_product_t *p, const dtn_cm_block_t *block)
{
    const int8_t *x = p->input;
    int8_t *output = p->output + block->first;
    if (p->depth <= DTN_CM_SHORT && p->weight_offset == 0 && p->scale.largest_shift < 0) {
        dtn_cm_short_rows(block, x, p->input_pitch, p->rows, output, p->output_pitch);
        return;
    }
    size_t row = 0;
    if (dtn_cm_takes_three_rows(block)) {
        for (; row + DTN_CM_TRIPLE <= p->rows; row += DTN_CM_TRIPLE) {
            const int8_t *first = x + row * p->input_pitch;
            const int8_t *const rows[] = {first, first + p->input_pitch, first + 2 * p->input_pitch};
            const int32_t more[] = {share_of_weights(p, row), share_of_weights(p, row + 1),
                                    share_of_weights(p, row + 2)};
            dtn_cm_three_rows(block, rows, p->weight_offset == 0 ? NULL : more, output + row * p->output_pitch,
                              p->output_pitch);
        }
    }
    for (; row < p->rows; row++) {
        dtn_cm_one_row(block, x + row * p->input_pitch, share_of_weights(p, row), output + row * p->output_pitch);
    }
}

void dtn_cm_multiply(const dtn_cm_product_t *product)
{
    const dtn_cm_product_t *p = product;
    bool is_prepared = p->bias != NULL && p->input_offset == 0;
    for (size_t first = 0; first < p->channels; first += DTN_CM_BLOCK) {
        size_t left = p->channels - first;
        dtn_cm_block_t block = {
            .weights = p->weights + first * p->depth,
            .depth = p->depth,
            .first = first,
            .count = left < DTN_CM_BLOCK ? left : DTN_CM_BLOCK,
            .scale = &p->scale,
        };
        int32_t starts[DTN_CM_BLOCK];
        for (size_t j = 0; j < block.count && !is_prepared; j++) {
            uint32_t bias = p->bias == NULL ? 0U : (uint32_t)p->bias[first + j];
            starts[j] = (int32_t)(bias + share_of_inputs(p, first + j));
        }
        block.starts = is_prepared ? p->bias + first : starts;
        add_block(p, &block);
    }
}
