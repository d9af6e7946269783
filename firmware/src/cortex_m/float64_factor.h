/**
 * @file
 * Products of sums and float64 factors, rounded once to nearest, ties away from zero.
 *
 * A factor is three words: (high * 2^32 + low) / 2^shift, with its upper 53 bits in high and low.
 */
#pragma once

#include "cortex_m.h"

/** Words of a factor. */
enum { DTN_CM_FACTOR_HIGH, DTN_CM_FACTOR_LOW, DTN_CM_FACTOR_SHIFT, DTN_CM_FACTOR_WORDS };

/** Bits that a product of a sum and the upper 32 bits of a factor has less than the shift says: 53 - 32 + 32. */
enum { DTN_CM_FACTOR_BITS = 53 };

/** Outputs of one row: one factor for all of them (`step` 0), or one each (`step` DTN_CM_FACTOR_WORDS). */
typedef struct {
    const int32_t *factors;
    size_t step;
    int32_t offset;
    int32_t lo;
    int32_t hi;
} dtn_cm_rounding_t;

/** True for `count` factors that the functions below can compute with. */
bool dtn_cm_are_float64_factors(const int32_t *factors, int32_t count);

/** sum * factor within 32 bits, by the whole product of 117 bits. */
int32_t dtn_cm_times_float64(int64_t sum, const int32_t *factor);

/**
 * round_sums_s8.c: fills `count` outputs with clamp(sum * factor + offset).
 *
 * The bits of a factor behind its upper 32 add less than |sum| to |sum| * upper. Only where that would round to another
 * number, the whole product is needed.
 */
void dtn_cm_round_sums(const dtn_cm_rounding_t *rounding, const int32_t *sums, size_t count, int8_t *output);
