/**
 * @file
 * Products of two rows of inputs with packed weights of four bits: as matmul_row_pairs_s8_dsp.h, whose inputs they
 * take.
 */
#pragma once

#include "matmul_row_pairs_s8_dsp.h"

/** Fills a block with `count` channels of a layer, 1 to DTN_DSP_CHANNELS, from `first` on, which is even. */
void dtn_dsp_make_block_s4(dtn_dsp_block_t *block, const int8_t *weights, size_t depth, const int32_t *bias,
                           const dtn_cm_scale_t *scale, size_t first, size_t count);

/** Adds the products of parts of two rows, from element `at` on, to sums a and b, as xw and xv, of each packed row. */
void dtn_dsp_add_pair_s4(const dtn_dsp_block_t *block, const dtn_dsp_pair_t *pair, size_t at, dtn_dsp_sums_t *sums);

/** Scales and stores the sums, with the bias. x and y are the first channel's, and may be the same. */
void dtn_dsp_store_pair_s4(const dtn_dsp_block_t *block, const dtn_dsp_sums_t *sums, int8_t *x, int8_t *y);

/** All channels of two whole rows: products, scaled and stored from x and y on, which may be the same. */
void dtn_dsp_multiply_pair_s4(const dtn_dsp_block_t *block, const dtn_dsp_pair_t *pair, int8_t *x, int8_t *y);
