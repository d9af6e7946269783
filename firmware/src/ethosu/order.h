/**
 * @file
 * The order in which the NPU reads weights, and their rows: one for each output channel.
 *
 * A stream has, for blocks of output channels, for blocks of input channels and for parts of the kernel of at most 8 by
 * 8 positions, small blocks of 4 or 8 output by 8 input channels, padded with zeros. Depth first, the input channels
 * of a position follow each other; part kernel first, the positions of 8 input channels.
 */
#ifndef DTN_ETHOSU_ORDER_H
#define DTN_ETHOSU_ORDER_H

#include "weights.h"

/** How the weights of an operation are ordered. */
typedef enum { DTN_EU_DEPTH_FIRST, DTN_EU_PART_KERNEL, DTN_EU_DEPTHWISE } dtn_eu_traversal_t;

/** The shape of an operation's weights. */
typedef struct {
    dtn_eu_traversal_t traversal;
    int32_t kernel_h;
    int32_t kernel_w;
    int32_t part_h; /**< of the kernel: positions of a part */
    int32_t part_w;
    int32_t inputs; /**< channels; 1 for depthwise operations */
    int32_t small;  /**< output channels of a small block */
    bool is_short;  /**< inputs of 16 bits */
} dtn_eu_order_t;

/**
 * Reads the weights of the next `depth` output channels of a stream into rows: that of channel i starts at i * `pitch`,
 * and has the weights of the kernel's positions, `inputs` for each. False when the stream is damaged.
 */
bool dtn_eu_read_rows(const dtn_eu_order_t *order, dtn_eu_weights_t *stream, int32_t depth, int16_t *rows,
                      size_t pitch);

#endif /* DTN_ETHOSU_ORDER_H */
