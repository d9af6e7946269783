/**
 * @file
 * Decoder of compressed weights: a stream of slices.
 *
 * A slice starts with a header: ZDIV (3 bits; 6: no zero runs, 7: padding to the next byte), number of values minus one
 * (15), WDIV (3; 7: uncompressed), WTRUNC (1), palette flag (1). A palette has an offset of direct values (5), its size
 * minus one, or 0 (5), bits per entry minus two (3), and the entries. Chunks follow: up to 12 weights, first their
 * unary parts of at most 2 bits each, and up to 12 or 8 zero runs, with their unary parts. The remainders of the
 * numbers, WDIV or ZDIV bits each, come after the unary parts of the next chunk. Bits of a byte are read from the
 * lowest on. A number below the palette's size is an index of it; entries have the sign in the lowest bit.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Maximum numbers of a chunk; and the capacity for waiting ones: at most three chunks of either kind. */
enum { DTN_ETHOSU_CHUNK = 12, DTN_ETHOSU_WAITING = 64 };

/** Decoded numbers of one kind: weights or zero runs. */
typedef struct {
    uint32_t total;   /**< in the slice */
    uint32_t started; /**< numbers with a decoded unary part; the last chunk may exceed `total` */
    uint32_t read;    /**< numbers with a decoded remainder */
    uint32_t taken;
    uint32_t carry; /**< unary part of a number that continues in the next chunk */
    uint32_t divisor;
    uint32_t chunk_count; /**< numbers of the last chunk, whose remainders follow */
    bool has_chunk;
    uint32_t chunk[DTN_ETHOSU_CHUNK];
    uint32_t waiting[DTN_ETHOSU_WAITING]; /**< ring buffer: number n is at n % DTN_ETHOSU_WAITING */
} dtn_ethosu_numbers_t;

/** The state of a decoder. */
typedef struct {
    const uint8_t *bytes;
    size_t length;
    size_t at; /**< next byte for `bits` */
    uint64_t bits;
    uint32_t bit_count;
    bool is_broken;    /**< damaged, or read beyond its end */
    bool is_plain;     /**< the slice's weights are not compressed */
    bool is_truncated; /**< no unary part is longer than a chunk's */
    bool has_zeros;
    bool zeros_are_next;
    bool has_palette; /**< a slice had one */
    uint32_t zeros;   /**< remaining zeros of the current run */
    uint32_t palette_size;
    uint32_t palette_bits;
    uint32_t offset;
    uint16_t palette[32];
    dtn_ethosu_numbers_t weights;
    dtn_ethosu_numbers_t runs;
} dtn_ethosu_weights_t;

/** Starts a stream of `length` bytes. */
void dtn_ethosu_weights_start(dtn_ethosu_weights_t *stream, const uint8_t *bytes, size_t length);

/** Decodes the next `count` weights of 9 bits; false if the stream is damaged or ends. */
bool dtn_ethosu_weights_read(dtn_ethosu_weights_t *stream, int16_t *weights, size_t count);
