/**
 * @file
 * Output channels in blocks and chunks, shared by the fast kernels.
 *
 * Compilers vectorise these loops because they work on plain arrays that cannot overlap (`restrict`, or local) and are
 * not unrolled first. GCC unrolls sixteen turns or fewer, unless the body is long, and then leaves them scalar.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "../requant.h"

/** Channels per block; and per chunk, which makes inner loops long enough to be worth vectorising and stacks small. */
enum { DTN_BLOCK = 16, DTN_CHUNK = 4 * DTN_BLOCK };

/** The requantization of one block of channels. */
typedef struct {
    int32_t multiplier[DTN_BLOCK];
    int32_t shift[DTN_BLOCK];
    int32_t least_shift;
} dtn_block_t;

/** Zero point and limits of an output. */
typedef struct {
    int32_t zero_point;
    int32_t lo;
    int32_t hi;
} dtn_range_t;

/** The block with one row for all channels. */
static inline void dtn_block_fill(dtn_block_t *block, dtn_requant_row_t row)
{
    for (int j = 0; j < DTN_BLOCK; j++) {
        block->multiplier[j] = row.multiplier;
        block->shift[j] = row.shift;
    }
    block->least_shift = row.shift;
}

/** The block of `n` rows (at most DTN_BLOCK) from `rows` on; channels without a row take the first. */
static inline void dtn_block_load(dtn_block_t *block, const dtn_requant_row_t *rows, int32_t n)
{
    int32_t least = rows[0].shift;
    if (n == DTN_BLOCK) {
        for (int32_t j = 0; j < DTN_BLOCK; j++) {
            block->multiplier[j] = rows[j].multiplier;
            block->shift[j] = rows[j].shift;
            least = rows[j].shift < least ? rows[j].shift : least;
        }
    } else {
        dtn_block_fill(block, rows[0]);
        for (int32_t j = 0; j < n; j++) {
            block->multiplier[j] = rows[j].multiplier;
            block->shift[j] = rows[j].shift;
            least = rows[j].shift < least ? rows[j].shift : least;
        }
    }
    block->least_shift = least;
}

/*
 * Requantizes a block whose shifts are all above 32, in 32-bit arithmetic. With top and low the halves of the product,
 *   round(product / 2^shift) = (top + 2^(r-1) - 1 + (odd | low != 0)) >> r,  r = shift - 32,
 * because the low half only matters at a tie, where it is 0 or not. `odd` is the last bit of the quotient. |top| is at
 * most 2^30 and r at most 30, so nothing overflows. Right shifts of negative numbers are arithmetic on every compiler
 * that this is built with; the tests would show another.
 */
static inline void dtn_block_requant_high(const uint32_t *sums, const dtn_block_t *block, dtn_range_t range,
                                          int32_t *out)
{
    int32_t lo = range.lo - range.zero_point;
    int32_t hi = range.hi - range.zero_point;
    for (int j = 0; j < DTN_BLOCK; j++) {
        int32_t sum = dtn_as_signed(sums[j]);
        int32_t top = (int32_t)(((int64_t)sum * block->multiplier[j]) >> 32);
        uint32_t low = (uint32_t)sum * (uint32_t)block->multiplier[j];
        uint32_t inexact = (low | (0U - low)) >> 31;
        int32_t r = block->shift[j] - 32;
        int32_t up = (int32_t)(((uint32_t)(top >> r) & 1U) | inexact) + (1 << (r - 1)) - 1;
        int32_t value = (top + up) >> r;
        value = value < lo ? lo : value;
        value = value > hi ? hi : value;
        out[j] = value + range.zero_point;
    }
}

/** Requantizes a block of sums and stores its first `n` channels. */
static inline void dtn_block_store(const uint32_t *sums, const dtn_block_t *block, dtn_range_t range, int8_t *out,
                                   int32_t n)
{
    int32_t wide[DTN_BLOCK];
    int8_t narrow[DTN_BLOCK];
    if (block->least_shift > 32) {
        dtn_block_requant_high(sums, block, range, wide);
    } else {
        for (int j = 0; j < DTN_BLOCK; j++) {
            dtn_requant_row_t row = {block->multiplier[j], block->shift[j]};
            wide[j] = dtn_requant_s8(dtn_as_signed(sums[j]), row, range.zero_point, range.lo, range.hi);
        }
    }
    for (int j = 0; j < DTN_BLOCK; j++) {
        narrow[j] = (int8_t)wide[j];
    }
    if (n == DTN_BLOCK) {
        memcpy(out, narrow, DTN_BLOCK);
    } else {
        memcpy(out, narrow, (size_t)n);
    }
}

/** The smaller of the rest and a whole block. */
static inline int32_t dtn_block_size(int32_t left)
{
    return left < DTN_BLOCK ? left : DTN_BLOCK;
}

/** The smaller of the rest and a whole chunk. */
static inline int32_t dtn_chunk_size(size_t left)
{
    return left < DTN_CHUNK ? (int32_t)left : DTN_CHUNK;
}

/** Requantizes `n` sums, at most a chunk, all with the row of `block`, and stores them. `sums` holds whole blocks. */
static inline void dtn_chunk_store(const uint32_t *sums, const dtn_block_t *block, dtn_range_t range, int8_t *out,
                                   int32_t n)
{
    for (int32_t c = 0; c < n; c += DTN_BLOCK) {
        dtn_block_store(sums + c, block, range, out + c, dtn_block_size(n - c));
    }
}

/** The factor multiplier / divisor, and reciprocal / 2^shift a little below it. */
typedef struct {
    int64_t multiplier;
    int64_t divisor;
    int64_t reciprocal;
    int32_t shift;
} dtn_quotient_t;

/** The quotient of a multiplier of 0 or more and a divisor of 1 to 2^61. */
static inline dtn_quotient_t dtn_quotient(int32_t multiplier, uint64_t divisor)
{
    dtn_quotient_t quotient = {multiplier, (int64_t)divisor, 0, 32};
    uint64_t reciprocal = ((uint64_t)multiplier << 32) / divisor;
    while (reciprocal > INT32_MAX && quotient.shift > 1) {
        reciprocal >>= 1;
        quotient.shift--;
    }
    quotient.reciprocal = reciprocal > INT32_MAX ? INT32_MAX : (int64_t)reciprocal;
    return quotient;
}

/**
 * sum * multiplier / divisor, rounded to nearest, ties to even, without a division; |sum| < 2^31. A result beyond 2^20
 * may be off, but not below that.
 *
 * The estimate is off by at most 1. With a shift of 32, the factor is short by less than 2^-32, times a sum below 2^31.
 * With a smaller shift, the reciprocal has 31 bits, which is exact enough for a result below 2^20. The remainder of the
 * estimate, doubled at most twice the divisor, decides if the next integer is nearer.
 */
static inline int64_t dtn_rne_quotient(int32_t sum, const dtn_quotient_t *quotient)
{
    int64_t value = dtn_rne_shift(sum * quotient->reciprocal, quotient->shift);
    int64_t twice = 2 * (sum * quotient->multiplier - value * quotient->divisor);
    int64_t odd = value & 1;
    value += (twice + odd > quotient->divisor) - (twice - odd < -quotient->divisor);
    return value;
}

/** Stores `n` sums, at most a chunk, times the quotient. */
static inline void dtn_chunk_store_means(const uint32_t *sums, const dtn_quotient_t *quotient, dtn_range_t range,
                                         int8_t *out, int32_t n)
{
    for (int32_t j = 0; j < n; j++) {
        int64_t value = dtn_rne_quotient(dtn_as_signed(sums[j]), quotient);
        out[j] = dtn_clamp_s8(range.zero_point + value, range.lo, range.hi);
    }
}
