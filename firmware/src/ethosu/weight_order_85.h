/**
 * @file
 * The order of an Ethos-U85's weights, and their sources.
 *
 * The loops, from the outermost: blocks of output channels, blocks of input channels (alternating forwards and
 * backwards), parts of the kernel of at most 8 by 8 positions, microblocks of output channels. Then follow the
 * positions of the part, grouped by phase of the stride, every second row backwards. Up to four streams share the
 * weights of a position, four output channels each in turn. Positions are padded with zeros to a multiple.
 *
 * Streams are compressed (weights.h), or one stream is in the fast format: 32 bytes with the width of a weight, then
 * weights of 2, 4 or 8 bits. Each step has its weights for one stream after the other.
 */
#pragma once

#include "weight_order.h"

/** Maximum streams, and entries of the fast format's table. */
enum { DTN_ETHOSU_STREAMS_85 = 4, DTN_ETHOSU_FAST_ENTRIES = 16 };

/** Order of an operation's weights. */
typedef struct {
    bool is_depthwise;
    int32_t kernel_h;
    int32_t kernel_w;
    int32_t part_h; /**< positions of a part of the kernel */
    int32_t part_w;
    int32_t stride_h; /**< phases of the positions; one in depth-first order */
    int32_t stride_w;
    int32_t inputs;     /**< channels; 1 for depthwise operations */
    int32_t block;      /**< input channels at once */
    int32_t inner;      /**< input channels per position */
    int32_t together;   /**< adjacent ones of these */
    int32_t microblock; /**< output channels */
    int32_t multiple;   /**< multiple of positions */
    int32_t extra;      /**< padding positions after as many */
    int32_t streams;
} dtn_ethosu_order_85_t;

/** Source of weights: compressed streams, or one in the fast format. */
typedef struct {
    dtn_ethosu_weights_t *packed;
    const uint8_t *fast; /**< NULL if streams are compressed */
    size_t fast_bytes;
    uint32_t fast_bits; /**< bits of a weight */
    int32_t adjustment; /**< of 8-bit weights */
    int16_t table[DTN_ETHOSU_FAST_ENTRIES];
    size_t step;                         /**< weights of one stream before those of the next */
    size_t taken[DTN_ETHOSU_STREAMS_85]; /**< read weights of a stream */
} dtn_ethosu_source_85_t;

/** Starts a source in the fast format; false when it is too short or damaged. */
bool dtn_ethosu_fast_start(dtn_ethosu_source_85_t *source, const dtn_ethosu_order_85_t *order, const uint8_t *bytes,
                           size_t length);

/**
 * Reads the weights of the next `depth` output channels into rows, as dtn_ethosu_read_rows does; `is_back`: input
 * channels come from the last block to the first. False if a stream is damaged.
 */
bool dtn_ethosu_read_rows_85(const dtn_ethosu_order_85_t *order, dtn_ethosu_source_85_t *source, bool is_back,
                             int32_t depth, int16_t *rows, size_t pitch);
