/**
 * @file
 * What convolutions and depthwise convolutions share: maps, weights and scales of a call, block by block of output
 * channels.
 */
#ifndef DTN_ETHOSU_LAYER_H
#define DTN_ETHOSU_LAYER_H

#include "order.h"
#include "scale.h"
#include "window.h"

/** Most output channels of a block. */
enum { DTN_EU_MOST_BLOCK = 128, DTN_EU_CORES = 2 };

/** Bias and factor of an output channel. */
typedef struct {
    int64_t bias;
    dtn_eu_factor_t factor;
} dtn_eu_channel_t;

/** An operation with weights, checked. */
typedef struct {
    dtn_eu_geometry_t geometry;
    dtn_eu_map_t input;
    dtn_eu_map_t out;
    dtn_eu_output_t output;
    dtn_eu_order_t order;
    size_t pitch;  /**< weights of an output channel */
    int32_t block; /**< output channels of a block */
    const uint8_t *scales[DTN_EU_CORES];
    dtn_eu_weights_t *streams;  /**< in the workspace, as all that follows: of each core */
    dtn_eu_channel_t *channels; /**< of a block */
    int16_t *rows;              /**< weights of a block */
    int16_t *column;            /**< a window of the input; of a depthwise operation the weights by position */
} dtn_eu_layer_t;

/** Reads and checks the registers of an operation with weights; `is_depthwise`: one input channel for each output. */
dtn_ethosu_fault_t dtn_eu_layer(dtn_ethosu_t *m, bool is_depthwise, dtn_eu_layer_t *layer);

/** Reads weights and scales of the block of `depth` output channels from `first` on. */
dtn_ethosu_fault_t dtn_eu_read_block(dtn_ethosu_t *m, dtn_eu_layer_t *layer, int32_t first, int32_t depth);

#endif /* DTN_ETHOSU_LAYER_H */
