/**
 * @file
 * Rows of inputs by rows of weights, a block of channels at a time; matmul_s8_mve.c has the functions.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "../inner_loops.h"

/** Channels of a block, and rows of inputs that meet the same weights at once. */
enum { DTN_CM_BLOCK = 16, DTN_CM_TRIPLE = 3 };

/** Longest row of a product that keeps the weights of four channels in registers. */
enum { DTN_CM_SHORT = 16 };

/** Longest padded row, most padded rows at once, and bytes of a buffer for them. */
enum { DTN_CM_PADDED = 48, DTN_CM_PADDED_ROWS = 20, DTN_CM_PADDED_BYTES = DTN_CM_PADDED_ROWS * DTN_CM_PADDED };

/** Bytes of a padded row. */
static inline size_t dtn_cm_padded_bytes(size_t depth)
{
    return (depth + 15U) / 16U * 16U;
}

/** Channels side by side: up to DTN_CM_BLOCK, but for one row, which may meet any number. */
typedef struct {
    const int8_t *weights; /**< a row of `depth` elements for each */
    const int32_t *starts; /**< what their sums start at */
    size_t depth;
    size_t first; /**< of the scale's channels */
    size_t count;
    const dtn_cm_scale_t *scale;
} dtn_cm_block_t;

/** True for a block that `dtn_cm_three_rows` takes. */
static inline bool dtn_cm_takes_three_rows(const dtn_cm_block_t *block)
{
    return block->depth > DTN_CM_SHORT && block->count > 1;
}

/**
 * Three rows of more than DTN_CM_SHORT inputs by two channels or more. `more`, or NULL, is added to the sums of each
 * row; `output` is that of the first row and channel of the block; `pitch` is the distance between rows.
 */
void dtn_cm_three_rows(const dtn_cm_block_t *block, const int8_t *const rows[DTN_CM_TRIPLE], const int32_t *more,
                       int8_t *output, size_t pitch);

/** One row of any length by any block. */
void dtn_cm_one_row(const dtn_cm_block_t *block, const int8_t *row, int8_t *output);

/** True for a block that `dtn_cm_short_rows` takes. */
static inline bool dtn_cm_takes_short_rows(const dtn_cm_block_t *block)
{
    return block->depth <= DTN_CM_SHORT && block->count >= 4 && block->scale->largest_shift < 0;
}

/** Rows of up to DTN_CM_SHORT inputs. */
void dtn_cm_short_rows(const dtn_cm_block_t *block, const int8_t *input, size_t input_pitch, size_t rows,
                       int8_t *output, size_t output_pitch);

/** True for a block that `dtn_cm_padded_rows` takes. */
static inline bool dtn_cm_takes_padded_rows(const dtn_cm_block_t *block)
{
    return block->depth > DTN_CM_SHORT && block->depth <= DTN_CM_PADDED && block->count >= 4 && block->count % 2 == 0 &&
           block->scale->largest_shift < 0;
}

/** Up to DTN_CM_PADDED_ROWS rows of up to DTN_CM_PADDED inputs, which any bytes follow up to a multiple of 16 bytes. */
void dtn_cm_padded_rows(const dtn_cm_block_t *block, const int8_t *input, size_t rows, int8_t *output,
                        size_t output_pitch);

/** matmul_s4_mve.c has the same for packed weights (packed_weights.h); the first channel of a block is even. */
void dtn_cm_three_rows_s4(const dtn_cm_block_t *block, const int8_t *const rows[DTN_CM_TRIPLE], const int32_t *more,
                          int8_t *output, size_t pitch);
void dtn_cm_one_row_s4(const dtn_cm_block_t *block, const int8_t *row, int8_t *output);
void dtn_cm_short_rows_s4(const dtn_cm_block_t *block, const int8_t *input, size_t input_pitch, size_t rows,
                          int8_t *output, size_t output_pitch);
void dtn_cm_padded_rows_s4(const dtn_cm_block_t *block, const int8_t *input, size_t rows, int8_t *output,
                           size_t output_pitch);
