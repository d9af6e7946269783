/**
 * @file
 * Shared parts of convolutions and depthwise convolutions: maps, weights and scales, per block of output channels.
 */
#pragma once

#include "accumulators.h"
#include "kernel_window.h"
#include "weight_order_85.h"

/** Maximum output channels of a block. */
enum { DTN_ETHOSU_MOST_BLOCK = 128, DTN_ETHOSU_MOST_BLOCK_85 = 1024, DTN_ETHOSU_CORES = 4 };

/** Bytes of a channel's bias and scale: 40, 32 and 6 bits; on an Ethos-U85 32 or 48, 31 or 15, and 6. */
enum { DTN_ETHOSU_SCALE_BYTES = 10 };

/** An operation with weights, checked. */
typedef struct {
    dtn_ethosu_geometry_t geometry;
    dtn_ethosu_map_t input;
    dtn_ethosu_map_t out;
    dtn_ethosu_output_t output;
    dtn_ethosu_sums_t sums;
    dtn_ethosu_map_t matrix; /**< second input of an Ethos-U85 that replaces weights */
    bool is_matrix;
    dtn_ethosu_factor_t factor; /**< for all channels of a product of two inputs */
    size_t products;            /**< in one 32-bit sum */
    dtn_ethosu_order_t order;
    dtn_ethosu_order_85_t order_85;   /**< instead, for an Ethos-U85 */
    dtn_ethosu_source_85_t source_85; /**< source of the weights */
    bool is_wide;                     /**< biases of an Ethos-U85 have 48 bits, and scales 15 */
    size_t pitch;                     /**< weights of an output channel */
    int32_t block;                    /**< output channels of a block */
    const uint8_t *scales[DTN_ETHOSU_CORES];
    dtn_ethosu_weights_t *streams;  /**< in the workspace, as the following: one per core */
    dtn_ethosu_channel_t *channels; /**< of a block */
    int16_t *rows;                  /**< weights of a block */
    int16_t *column;                /**< a window of the input; for depthwise operations the weights by position */
} dtn_ethosu_layer_t;

/** Reads and checks the registers of an operation with weights; `is_depthwise`: one input channel per output channel.
 */
dtn_ethosu_fault_t dtn_ethosu_layer(dtn_ethosu_t *m, bool is_depthwise, dtn_ethosu_layer_t *layer);

/** Reads weights and scales of the block of `depth` output channels from `first` on. */
dtn_ethosu_fault_t dtn_ethosu_read_block(dtn_ethosu_t *m, dtn_ethosu_layer_t *layer, int32_t first, int32_t depth);

/** Returns the bytes that two registers describe, in a region; NULL in a check. */
dtn_ethosu_fault_t dtn_ethosu_read_bytes(dtn_ethosu_t *m, uint16_t region, uint16_t base, uint16_t length,
                                         const uint8_t **bytes, size_t *count);

/** The bit for sparse weights in an Ethos-U85's weight format. */
enum { DTN_ETHOSU_IS_SPARSE = 1U << 4 };

/** Output channels of an Ethos-U85's microblock, by the accumulator format; 0 for reserved formats. */
int32_t dtn_ethosu_channels_85(const dtn_ethosu_t *m);

/** Ethos-U85: the order of weights, which follows from the microblock. */
dtn_ethosu_fault_t dtn_ethosu_order_of_85(dtn_ethosu_t *m, bool is_depthwise, dtn_ethosu_layer_t *layer);

/** Ethos-U85: weights and scales, with one stream of scales for all channels. */
dtn_ethosu_fault_t dtn_ethosu_streams_85(dtn_ethosu_t *m, dtn_ethosu_layer_t *layer);

/** Ethos-U85: checks a product of two inputs, which has one factor for all channels and no bias. */
dtn_ethosu_fault_t dtn_ethosu_matrix_85(dtn_ethosu_t *m, dtn_ethosu_layer_t *layer);

/** Ethos-U85: a channel's bias of 32 bits and scale of 31, or of 48 and 15, and the shift. */
dtn_ethosu_channel_t dtn_ethosu_channel_of_85(const uint8_t *bytes, bool is_wide);

/** dtn_ethosu_read_block for an Ethos-U85. */
dtn_ethosu_fault_t dtn_ethosu_read_block_85(dtn_ethosu_t *m, dtn_ethosu_layer_t *layer, int32_t first, int32_t depth);
