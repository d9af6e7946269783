#define DTN_CM_LOAD_TWO                                                                                                \
    "vldrb.8 q0, [%[w]]\n"                                                                                             \
    "vldrb.8 q2, [%[v]]\n"                                                                                             \
    "vpstt\n"                                                                                                          \
    "vldrbt.8 q1, [%[w], #16]\n"                                                                                       \
    "vldrbt.8 q3, [%[v], #16]\n"
#define DTN_CM_LOAD_THREE                                                                                              \
    "vldrb.8 q0, [%[w]]\n"                                                                                             \
    "vldrb.8 q1, [%[w], #16]\n"                                                                                        \
    "vldrb.8 q3, [%[v]]\n"                                                                                             \
    "vldrb.8 q4, [%[v], #16]\n"                                                                                        \
    "vpstt\n"                                                                                                          \
    "vldrbt.8 q2, [%[w], #32]\n"                                                                                       \
    "vldrbt.8 q5, [%[v], #32]\n"

#include "matmul_padded_rows_mve.h"
#include "matmul_pairs_mve.h"

/* ---- Sums ---- */

/* Three rows of inputs by `pairs` pairs of rows of weights, all of more than 16 elements, in turns of 16. */
static void add_pairs(const int8_t *const rows[DTN_CM_TRIPLE], const int8_t *weights, size_t depth, size_t pairs,
                      int32_t *sums)
{
    /* How far a turn of rows has gone: from there back to the start of a row, and to that of the next. */
    const size_t gone = (depth + 15U) / 16U * 16U;
    const int32_t end = (int32_t)(uintptr_t)(sums + 2 * pairs);
    const int32x4_t numbers = dtn_mve_vector((int32_t)gone, (int32_t)depth - 16, (int32_t)(gone - depth), end);
    /* Behind the last call, which would take the registers. */
    register const int8_t *x __asm__("r1") = rows[0];
    register const int8_t *y __asm__("r3") = rows[1];
    register const int8_t *z __asm__("r5") = rows[2];
    register const int8_t *w __asm__("r6") = weights;
    register int32_t *to __asm__("r11") = sums;
    __asm__ volatile(DTN_MVE_ALL_PAIRS("vldrb.8", "16", "vldrb.8", "s8", "dlstp.8 lr, lr\n")
                     : "+&r"(x), "+&r"(y), "+&r"(z), "+&r"(w), "+&r"(to)
                     : [numbers] "w"(numbers)
                     : "r0", "r2", "r4", "r8", "r10", "r12", "lr", "q0", "q1", "q2", "q3", "q5", "cc", "memory");
}

/* ---- Outputs ---- */

/* Adds the start value of each row. */
static void add_more(sums_t sums, size_t count, const int32_t *more)
{
    for (size_t i = 0; i < DTN_CM_TRIPLE; i++) {
        for (size_t j = 0; j < count; j += DTN_MVE_LANES) {
            vstrwq_s32(&sums[i][j], vaddq_n_s32(vldrwq_s32(&sums[i][j]), more[i]));
        }
    }
}

void dtn_cm_three_rows(const dtn_cm_block_t *block, const int8_t *const rows[DTN_CM_TRIPLE], const int32_t *more,
                       int8_t *output, size_t pitch)
{
    sums_t sums;
    add_pairs(rows, block->weights, block->depth, block->count / 2, sums[0]);
    if (block->count % 2 != 0) {
        /* An odd channel at the end is made with the one before once more. */
        size_t first = block->count - 2;
        add_pairs(rows, block->weights + first * block->depth, block->depth, 1, &sums[0][first]);
    }
    if (more != NULL) {
        add_more(sums, block->count, more);
    }
    if (block->scale->largest_shift < 0) {
        store_rows(block, sums, false, false, output, pitch);
    } else {
        store_rows_general(block, sums, false, output, pitch);
    }
}

/* One row by fewer than four channels, or with shifts that are not all below 0. */
static void one_row_general(const dtn_cm_block_t *block, const int8_t *row, int8_t *output)
{
    for (size_t j = 0; j < block->count; j++) {
        int32_t sums[DTN_MVE_LANES] = {block->starts[j]};
        vstrwq_s32(sums, dtn_mve_four_sums(row, block->weights + j * block->depth, 0, block->depth, sums));
        store_general(block, j, 1, sums, output);
    }
}

void dtn_cm_one_row(const dtn_cm_block_t *block, const int8_t *row, int8_t *output)
{
    const dtn_cm_scale_t *scale = block->scale;
    size_t left = block->count;
    if (left < DTN_MVE_LANES || scale->largest_shift >= 0) {
        one_row_general(block, row, output);
        return;
    }
    const int32_t *multipliers = scale->multipliers;
    const int32_t *shifts = scale->shifts;
    const int32_t *starts = block->starts;
    const int8_t *weights = block->weights;
    const size_t depth = block->depth;
    const bool is_shared = scale->step == 0;
    dtn_cm_lanes_t lanes = common_lanes(scale);
    if (is_shared) {
        lanes.multipliers = vdupq_n_s32(*multipliers);
        lanes.shifts = vdupq_n_s32(*shifts);
    } else {
        multipliers += block->first;
        shifts += block->first;
    }
    for (;;) {
        int32x4_t sums = dtn_mve_four_sums(row, weights, depth, depth, starts);
        if (!is_shared) {
            lanes.multipliers = vldrwq_s32(multipliers);
            lanes.shifts = vldrwq_s32(shifts);
        }
        vstrbq_s32(output, dtn_cm_scaled_lanes(sums, &lanes));
        left -= DTN_MVE_LANES;
        if (left == 0) {
            return;
        }
        /* The last four channels may have some that are made once more. */
        const size_t next = left < DTN_MVE_LANES ? left : DTN_MVE_LANES;
        left += DTN_MVE_LANES - next;
        weights += next * depth;
        starts += next;
        output += next;
        if (!is_shared) {
            multipliers += next;
            shifts += next;
        }
    }
}

/* ---- Short rows: the weights of four channels stay in registers ---- */

void dtn_cm_short_rows(const dtn_cm_block_t *block, const int8_t *input, size_t input_pitch, size_t rows,
                       int8_t *output, size_t output_pitch)
{
    const size_t depth = block->depth;
    factors_t factors;
    find_factors(block, &factors);
    const mve_pred16_t within = vctp8q((uint32_t)depth);
    short_numbers_t numbers = {.depth = (uint32_t)depth};
    vstrwq_s32(numbers.lo, vdupq_n_s32(block->scale->lo));
    vstrwq_s32(numbers.hi, vdupq_n_s32(block->scale->hi));
    for (size_t j = 0; j < block->count; j += DTN_MVE_LANES) {
        /* Behind the last four channels less than four are left: they are made with those before once more. */
        size_t first = block->count - j < DTN_MVE_LANES ? block->count - DTN_MVE_LANES : j;
        size_t at = factors.step == 0 ? 0 : first;
        const int8_t *a = block->weights + first * depth;
        const four_rows_t w = {vldrbq_z_s8(a, within), vldrbq_z_s8(a + depth, within),
                               vldrbq_z_s8(a + 2 * depth, within), vldrbq_z_s8(a + 3 * depth, within)};
        vstrwq_s32(numbers.multipliers, vldrwq_s32(factors.multipliers + at));
        four_channels(&w, vldrwq_s32(block->starts + first), vldrwq_s32(factors.shifts + at), &numbers,
                      block->scale->offset, input, input_pitch, rows, output + first, output_pitch);
    }
}

/* ---- Padded rows: the weights of two channels stay in registers ---- */

void dtn_cm_padded_rows(const dtn_cm_block_t *block, const int8_t *input, size_t rows, int8_t *output,
                        size_t output_pitch)
{
    padded_rows(block, 2 * block->depth, input, rows, output, output_pitch);
}

/* ---- The product ---- */

/* The term of the input's offset in the sums of a channel. */
static uint32_t input_offset_term(const dtn_cm_product_t *p, size_t channel)
{
    int32_t weights = dtn_cm_total(p->weights + channel * p->depth, p->depth) + (int32_t)p->depth * p->weight_offset;
    return (uint32_t)(weights * p->input_offset);
}

/* The term of the weights' offset in the sums of a row. */
static int32_t weight_offset_term(const dtn_cm_product_t *p, size_t row)
{
    return p->weight_offset == 0 ? 0 : dtn_cm_total(p->input + row * p->input_pitch, p->depth) * p->weight_offset;
}

static void add_block(const dtn_cm_product_t *p, const dtn_cm_block_t *block)
{
    const int8_t *x = p->input;
    int8_t *output = p->output + block->first;
    if (p->weight_offset == 0 && dtn_cm_takes_short_rows(block)) {
        dtn_cm_short_rows(block, x, p->input_pitch, p->rows, output, p->output_pitch);
        return;
    }
    if (p->weight_offset == 0 && p->rows >= DTN_CM_PADDED_ROWS / 2 && dtn_cm_takes_padded_rows(block)) {
        multiply_padded(p, block, 2 * block->depth);
        return;
    }
    size_t row = 0;
    if (dtn_cm_takes_three_rows(block)) {
        for (; row + DTN_CM_TRIPLE <= p->rows; row += DTN_CM_TRIPLE) {
            const int8_t *first = x + row * p->input_pitch;
            const int8_t *const rows[] = {first, first + p->input_pitch, first + 2 * p->input_pitch};
            const int32_t more[] = {weight_offset_term(p, row), weight_offset_term(p, row + 1),
                                    weight_offset_term(p, row + 2)};
            dtn_cm_three_rows(block, rows, p->weight_offset == 0 ? NULL : more, output + row * p->output_pitch,
                              p->output_pitch);
        }
    }
    for (; row < p->rows; row++) {
        dtn_cm_block_t own = *block;
        int32_t starts[DTN_CM_BLOCK];
        int32_t more = weight_offset_term(p, row);
        for (size_t j = 0; j < own.count && more != 0; j++) {
            starts[j] = dtn_cm_plus(block->starts[j], more);
        }
        own.starts = more == 0 ? block->starts : starts;
        dtn_cm_one_row(&own, x + row * p->input_pitch, output + row * p->output_pitch);
    }
}

static __attribute__((noinline)) void multiply_blocks(const dtn_cm_product_t *p)
{
    const bool is_prepared = p->bias != NULL && p->input_offset == 0;
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
            starts[j] = (int32_t)(bias + input_offset_term(p, first + j));
        }
        block.starts = is_prepared ? p->bias + first : starts;
        add_block(p, &block);
    }
}

void dtn_cm_multiply(const dtn_cm_product_t *p)
{
    if (p->rows == 1 && p->bias != NULL && p->input_offset == 0 && p->weight_offset == 0) {
        /* A single row needs no memory for sums. */
        const dtn_cm_block_t all = {p->weights, p->bias, p->depth, 0, p->channels, &p->scale};
        dtn_cm_one_row(&all, p->input, p->output);
    } else {
        multiply_blocks(p);
    }
}
