/**
 * @file
 * One row of inputs by rows of weights, on cores with DSP instructions: the inputs are unpacked to the stack, a part at
 * a time, and each part serves up to DTN_CM_ROW_SUMS channels.
 */
#pragma once

#include "../inner_loops.h"
#include "loops_dsp.h"
#include "matmul_row_pairs_s8_dsp.h"

/** Elements of a part. */
enum { DTN_DSP_PART = 640 };

static inline size_t dtn_dsp_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Adds the products of four inputs, unpacked to two words, with four weights. */
static inline uint32_t dtn_dsp_add_four(const uint32_t *words, const int8_t *weights, uint32_t sum)
{
    uint32_t bytes = dtn_dsp_load(weights);
    sum = dtn_dsp_both(words[1], dtn_dsp_odd(bytes), sum);
    return dtn_dsp_both(words[0], dtn_dsp_even(bytes), sum);
}

/* Adds the products of fours with four rows of weights, or with two. */
static inline void dtn_dsp_add_fours(const uint32_t *words, size_t fours, const int8_t *weights, size_t pitch,
                                     size_t rows, uint32_t *sums)
{
    const size_t turns = fours / 4;
    if (turns != 0 && rows == 4) {
        dtn_dsp_add_four_rows(words, turns, weights, pitch, sums);
    } else if (turns != 0) {
        dtn_dsp_add_two_rows(words, turns, weights, pitch, sums);
    }
    for (size_t i = 4 * turns; i < fours; i++) {
        for (size_t j = 0; j < rows; j++) {
            sums[j] = dtn_dsp_add_four(words + 2 * i, weights + j * pitch + 4 * i, sums[j]);
        }
    }
}

/* Functions of their own, whose loops then have all registers. */
__attribute__((noinline)) static void dtn_dsp_add_to_four(const uint32_t *words, size_t fours, const int8_t *weights,
                                                          size_t pitch, uint32_t sums[4])
{
    dtn_dsp_add_fours(words, fours, weights, pitch, 4, sums);
}

__attribute__((noinline)) static void dtn_dsp_add_to_two(const uint32_t *words, size_t fours, const int8_t *weights,
                                                         size_t pitch, uint32_t sums[2])
{
    dtn_dsp_add_fours(words, fours, weights, pitch, 2, sums);
}

/* The same with the elements of a part that make no four. */
__attribute__((noinline)) static void dtn_dsp_add_rest(const dtn_cm_product_t *p, size_t at, size_t count, size_t first,
                                                       size_t channels, uint32_t *sums)
{
    const int8_t *weights = p->weights + first * p->depth + at;
    for (size_t k = count / 4 * 4; k < count; k++) {
        int32_t input = p->input[at + k] + p->input_offset;
        for (size_t i = 0; i < channels; i++) {
            sums[i] += (uint32_t)(input * weights[i * p->depth + k]);
        }
    }
}

/* Adds the products of a part of a row, from element `at` on, to the sums of channels from `first` on. */
static inline void dtn_dsp_add_part(const dtn_cm_product_t *p, const uint32_t *words, size_t at, size_t first,
                                    size_t channels, uint32_t *sums)
{
    size_t count = dtn_dsp_min(p->depth - at, DTN_DSP_PART);
    const int8_t *weights = p->weights + first * p->depth + at;
    size_t i = 0;
    for (; channels - i >= 4; i += 4) {
        dtn_dsp_add_to_four(words, count / 4, weights + i * p->depth, p->depth, &sums[i]);
    }
    for (; i < channels; i += 2) {
        /* A single row is paired with itself; the second sum is not used. */
        dtn_dsp_add_to_two(words, count / 4, weights + i * p->depth, i + 1 < channels ? p->depth : 0, &sums[i]);
    }
    if (count % 4 != 0) {
        dtn_dsp_add_rest(p, at, count, first, channels, sums);
    }
}

/* Adds the products of a row, unpacked a part at a time, to the sums of up to DTN_CM_ROW_SUMS channels. */
static inline void dtn_dsp_add_row(const dtn_cm_product_t *p, uint32_t words[DTN_DSP_PART / 2], size_t first,
                                   size_t channels, uint32_t *sums)
{
    for (size_t at = 0; at < p->depth; at += DTN_DSP_PART) {
        dtn_dsp_unpack(p->input + at, dtn_dsp_twice(p->input_offset), dtn_dsp_min(p->depth - at, DTN_DSP_PART) / 4,
                       words, 2);
        dtn_dsp_add_part(p, words, at, first, channels, sums);
    }
}
