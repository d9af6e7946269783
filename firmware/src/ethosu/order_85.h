/**
 * @file
 * The order in which an Ethos-U85 reads weights, and where it has them from.
 *
 * For blocks of output channels, for blocks of input channels (forwards and backwards in turn), for parts of the kernel
 * of at most 8 by 8 positions and for microblocks of output channels, the positions of the part follow each other,
 * first those that the same phase of a stride meets, every second row of them backwards. The weights of a position are
 * shared between up to four streams, four output channels each in turn. What a number of positions lacks of a whole
 * multiple is padded with zeros.
 *
 * Streams are compressed (weights.h), or one for all in the fast format: 32 bytes say how wide a weight is, then come
 * weights of 2, 4 or 8 bits, those of a step for one stream after the other.
 */
#ifndef DTN_ETHOSU_ORDER_85_H
#define DTN_ETHOSU_ORDER_85_H

#include "order.h"

/** Most streams, and entries of the fast format's table. */
enum { DTN_EU_STREAMS_85 = 4, DTN_EU_FAST_ENTRIES = 16 };

/** How the weights of an operation are ordered. */
typedef struct {
    bool is_depthwise;
    int32_t kernel_h;
    int32_t kernel_w;
    int32_t part_h; /**< of the kernel: positions of a part */
    int32_t part_w;
    int32_t stride_h; /**< phases of the positions; depth first has one */
    int32_t stride_w;
    int32_t inputs;     /**< channels; 1 for depthwise operations */
    int32_t block;      /**< input channels at a time */
    int32_t inner;      /**< of them under a position */
    int32_t together;   /**< of these side by side */
    int32_t microblock; /**< output channels */
    int32_t multiple;   /**< of positions */
    int32_t extra;      /**< positions of padding behind as many */
    int32_t streams;
} dtn_eu_order_85_t;

/** Where weights come from: `packed` streams, or one in the fast format. */
typedef struct {
    dtn_eu_weights_t *packed;
    const uint8_t *fast; /**< NULL where streams are packed */
    size_t fast_bytes;
    uint32_t fast_bits; /**< of a weight */
    int32_t adjustment; /**< of weights of 8 bits */
    int16_t table[DTN_EU_FAST_ENTRIES];
    size_t step;                     /**< weights of one stream before those of the next */
    size_t taken[DTN_EU_STREAMS_85]; /**< weights of a stream */
} dtn_eu_source_85_t;

/** Starts a source in the fast format; false when it is too short or damaged. */
bool dtn_eu_fast_start(dtn_eu_source_85_t *source, const dtn_eu_order_85_t *order, const uint8_t *bytes, size_t length);

/**
 * Reads the weights of the next `depth` output channels into rows, as dtn_eu_read_rows does; `is_back` says that input
 * channels come from the last block to the first. False when a stream is damaged.
 */
bool dtn_eu_read_rows_85(const dtn_eu_order_85_t *order, dtn_eu_source_85_t *source, bool is_back, int32_t depth,
                         int16_t *rows, size_t pitch);

#endif /* DTN_ETHOSU_ORDER_85_H */
