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

/* A row of inputs, and the rows of weights of some channels. */
typedef struct {
    const int8_t *input;
    const int8_t *weights;
    size_t depth;
    int32_t input_offset;
} dtn_dsp_row_t;

/* Functions of their own, whose loops then have all registers. */
__attribute__((noinline)) static void dtn_dsp_add_to_four(const uint32_t *words, size_t fours, const int8_t *weights,
                                                          size_t pitch, uint32_t sums[4])
{
    dtn_dsp_add_four_rows(words, fours, weights, pitch, sums);
}

__attribute__((noinline)) static void dtn_dsp_add_to_two(const uint32_t *words, size_t fours, const int8_t *weights,
                                                         size_t pitch, uint32_t sums[2])
{
    dtn_dsp_add_two_rows(words, fours, weights, pitch, sums);
}

/* The same with the elements of a part that make no four. */
__attribute__((noinline)) static void dtn_dsp_add_rest(const dtn_dsp_row_t *row, size_t at, size_t count, size_t first,
                                                       size_t channels, uint32_t *sums)
{
    const int8_t *weights = row->weights + first * row->depth + at;
    for (size_t k = count / 4 * 4; k < count; k++) {
        int32_t input = row->input[at + k] + row->input_offset;
        for (size_t i = 0; i < channels; i++) {
            sums[i] += (uint32_t)(input * weights[i * row->depth + k]);
        }
    }
}

/* Adds the products of a part of a row, from element `at` on, to the sums of channels from `first` on. */
static inline void dtn_dsp_add_part(const dtn_dsp_row_t *row, const uint32_t *words, size_t at, size_t first,
                                    size_t channels, uint32_t *sums)
{
    size_t count = dtn_dsp_min(row->depth - at, DTN_DSP_PART);
    const int8_t *weights = row->weights + first * row->depth + at;
    size_t i = count < 4 ? channels : 0;
    for (; channels - i >= 4; i += 4) {
        dtn_dsp_add_to_four(words, count / 4, weights + i * row->depth, row->depth, &sums[i]);
    }
    for (; i < channels; i += 2) {
        /* A single row is paired with itself; the second sum is not used. */
        dtn_dsp_add_to_two(words, count / 4, weights + i * row->depth, i + 1 < channels ? row->depth : 0, &sums[i]);
    }
    if (count % 4 != 0) {
        dtn_dsp_add_rest(row, at, count, first, channels, sums);
    }
}

/* Adds the products of a row, unpacked a part at a time, to the sums of up to DTN_CM_ROW_SUMS channels. */
static inline void dtn_dsp_add_row(const dtn_dsp_row_t *row, uint32_t words[DTN_DSP_PART / 2], size_t first,
                                   size_t channels, uint32_t *sums)
{
    for (size_t at = 0; at < row->depth; at += DTN_DSP_PART) {
        dtn_dsp_unpack(row->input + at, dtn_dsp_twice(row->input_offset),
                       dtn_dsp_min(row->depth - at, DTN_DSP_PART) / 4, words, 2);
        dtn_dsp_add_part(row, words, at, first, channels, sums);
    }
}
