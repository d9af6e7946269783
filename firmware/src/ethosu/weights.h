/**
 * @file
 * Compressed weights, as the NPU reads them: a stream of slices.
 *
 * A slice starts with a header: ZDIV (3 bits; 6: no runs of zeros, 7: padding up to the next byte), values less one
 * (15), WDIV (3; 7: not compressed), WTRUNC (1), and whether a palette follows (1): offset of values beside it (5),
 * its size less one, or 0 (5), bits of an entry less two (3), and the entries. Then chunks: up to 12 weights, of which
 * first the unary parts stand, 2 bits at most for each, and up to 12 or 8 runs of zeros, whose unary parts follow; what
 * remains of each number, WDIV or ZDIV bits, stands behind the unary parts of the next chunk. Bits of a byte are read
 * from its lowest on. A number below the palette's size is an entry of it; entries have the sign in the lowest bit.
 */
#ifndef DTN_ETHOSU_WEIGHTS_H
#define DTN_ETHOSU_WEIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Numbers of a chunk; and room for those that wait: at most three chunks of either kind. */
enum { DTN_EU_CHUNK = 12, DTN_EU_WAITING = 64 };

/** Numbers of one kind, weights or runs of zeros, on their way out of the stream. */
typedef struct {
    uint32_t total;   /**< in the slice */
    uint32_t started; /**< those whose unary part was read; the last chunk may start more than there are */
    uint32_t read;    /**< those whose rest was read, too */
    uint32_t taken;
    uint32_t carry; /**< the unary part of a number that goes on in the next chunk */
    uint32_t divisor;
    uint32_t chunk_count; /**< numbers of the last chunk, whose rest was not read yet */
    bool has_chunk;
    uint32_t chunk[DTN_EU_CHUNK];
    uint32_t waiting[DTN_EU_WAITING]; /**< a ring: number n stands at n % DTN_EU_WAITING */
} dtn_eu_numbers_t;

/** A stream in decoding. */
typedef struct {
    const uint8_t *bytes;
    size_t length;
    size_t at; /**< of the next byte for `bits` */
    uint64_t bits;
    uint32_t bit_count;
    bool is_broken;    /**< damaged, or read beyond its end */
    bool is_plain;     /**< the slice's weights are not compressed */
    bool is_truncated; /**< no unary part is longer than a chunk's */
    bool has_zeros;
    bool zeros_are_next;
    bool has_palette; /**< a slice had one */
    uint32_t zeros;   /**< of the current run, to be given */
    uint32_t palette_size;
    uint32_t palette_bits;
    uint32_t offset;
    uint16_t palette[32];
    dtn_eu_numbers_t weights;
    dtn_eu_numbers_t runs;
} dtn_eu_weights_t;

/** Starts a stream of `length` bytes. */
void dtn_eu_weights_start(dtn_eu_weights_t *stream, const uint8_t *bytes, size_t length);

/** The next `count` weights, each of 9 bits; false when the stream is damaged or ends before. */
bool dtn_eu_weights_read(dtn_eu_weights_t *stream, int16_t *weights, size_t count);

#endif /* DTN_ETHOSU_WEIGHTS_H */
