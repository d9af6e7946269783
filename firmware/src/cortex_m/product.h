/**
 * @file
 * Products of rows: what convolutions of one by one, linear layers and matrix products are.
 */
#ifndef DTN_PRODUCT_H
#define DTN_PRODUCT_H

#include "scale.h"

/** Rows of an input by the rows of weights, one for each channel of the output. */
typedef struct {
    const int8_t *input;
    const int8_t *weights; /**< `channels` rows, one behind the other */
    const int32_t *bias;   /**< one per channel, or NULL */
    int8_t *output;
    size_t rows;
    size_t depth; /**< elements of a row, at most DTN_CM_MAX_PRODUCTS */
    size_t channels;
    size_t input_pitch; /**< from a row of the input to the next */
    size_t output_pitch;
    int32_t input_offset;
    int32_t weight_offset;
    dtn_cm_scale_t scale;
} dtn_cm_product_t;

/** Fills the output: sums of (input + offset) * (weight + offset) and the bias, scaled. */
void dtn_cm_multiply(const dtn_cm_product_t *product);

#endif /* DTN_PRODUCT_H */
