/**
 * @file
 * Products of two rows of inputs with rows of weights, both rows by one long multiplication.
 *
 * A pair is the number x + y * 2^23. A sum of pairs times weights, in 64 bits, is the sum of x times the weights plus
 * 2^23 times that of y. The two can be separated as long as the first fits 23 bits. Inputs with their offset are below
 * 256 and weights up to 128, so that it does for DTN_CM_PAIRS terms.
 */
#ifndef DTN_PAIRS_H
#define DTN_PAIRS_H

#include "../scale.h"

/** The factor of y in a pair, as a power of two. */
enum { DTN_CM_PAIR_BITS = 23 };

/** Most terms of a sum before both parts are read off. */
enum { DTN_CM_PAIRS = 128 };

/** Sums of rows of inputs x and y with rows of weights w and v, in unsigned arithmetic, where overflow is defined. */
typedef struct {
    uint32_t xw;
    uint32_t xv;
    uint32_t yw;
    uint32_t yv;
} dtn_cm_pair_sums_t;

/** The weights for two rows of inputs, and the addresses of the results. */
typedef struct {
    const int8_t *weights; /**< a row of `depth` elements for each channel */
    const int32_t *bias;   /**< one per channel, or NULL */
    size_t depth;
    size_t channels;
    const dtn_cm_scale_t *scale;
    uint32_t x_start; /**< added to every sum of x */
    uint32_t y_start;
    int8_t *x_output; /**< of the first channel; may be that of y */
    int8_t *y_output;
} dtn_cm_pair_job_t;

/** The pairs of `count` elements of two rows, with the offset added. */
void dtn_cm_make_pairs(const int8_t *x, const int8_t *y, int32_t offset, size_t count, int32_t *pairs);

/** Adds the products of `count` pairs, at most DTN_CM_PAIRS, with two rows of weights. */
void dtn_cm_add_pairs(const int32_t *pairs, const int8_t *w, const int8_t *v, size_t count, dtn_cm_pair_sums_t *sums);

/** Scales the sums of channel 2k with w and 2k + 1 with v, `sums` being those of k, and stores them. */
void dtn_cm_store_pairs(const dtn_cm_pair_job_t *job, size_t first, size_t end, const dtn_cm_pair_sums_t *sums);

/** All channels: the products of `depth` pairs, scaled and stored. */
void dtn_cm_multiply_pairs(const dtn_cm_pair_job_t *job, const int32_t *pairs);

#endif /* DTN_PAIRS_H */
