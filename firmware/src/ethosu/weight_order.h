/**
 * @file
 * The NPU's order of weights, converted to one row for each output channel.
 *
 * The loops of a stream, from the outermost: blocks of output channels, blocks of input channels, parts of the kernel
 * of at most 8 by 8 positions. The innermost unit is a small block of 4 or 8 output by 8 input channels, padded with
 * zeros. In depth-first order, the input channels of a position follow each other; in part-kernel order, the positions
 * of 8 channels.
 */
#pragma once

#include "weights.h"

/** Order of an operation's weights. */
typedef enum { DTN_ETHOSU_DEPTH_FIRST, DTN_ETHOSU_PART_KERNEL, DTN_ETHOSU_DEPTHWISE } dtn_ethosu_traversal_t;

/** The shape of an operation's weights. */
typedef struct {
    dtn_ethosu_traversal_t traversal;
    int32_t kernel_h;
    int32_t kernel_w;
    int32_t part_h; /**< positions of a part of the kernel */
    int32_t part_w;
    int32_t inputs; /**< channels; 1 for depthwise operations */
    int32_t small;  /**< output channels of a small block */
    bool is_short;  /**< inputs of 16 bits */
} dtn_ethosu_order_t;

/**
 * Reads the weights of the next `depth` output channels of a stream into rows: row i starts at i * `pitch` and has
 * `inputs` weights for each kernel position. False if the stream is damaged.
 */
bool dtn_ethosu_read_rows(const dtn_ethosu_order_t *order, dtn_ethosu_weights_t *stream, int32_t depth, int16_t *rows,
                          size_t pitch);
