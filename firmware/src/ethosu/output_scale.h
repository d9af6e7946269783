/**
 * @file
 * Converts sums to outputs: scaling, zero point, limits and tables.
 */
#pragma once

#include "feature_map.h"

/** How a scaled value is rounded. */
typedef enum {
    DTN_ETHOSU_DOUBLE = 0,    /**< to nearest twice, ties away from zero: as TFLite */
    DTN_ETHOSU_TRUNCATE = 1,  /**< down */
    DTN_ETHOSU_NATURAL = 2,   /**< to nearest, ties up */
    DTN_ETHOSU_DOUBLE_UP = 3, /**< as DTN_ETHOSU_DOUBLE, but the first ties up: Ethos-U85, as the following */
    DTN_ETHOSU_AWAY = 4,      /**< to nearest, ties away from zero */
    DTN_ETHOSU_TO_ZERO = 5,   /**< towards zero */
} dtn_ethosu_rounding_t;

/** The factor scale / 2^shift. */
typedef struct {
    int64_t scale;  /**< 33 bits with the sign, as the registers' 32 bits are unsigned */
    uint32_t shift; /**< 0..63 */
} dtn_ethosu_factor_t;

/** Bias and factor of an output channel. */
typedef struct {
    int64_t bias;
    dtn_ethosu_factor_t factor;
} dtn_ethosu_channel_t;

/** Table of an activation for a clamped value. */
typedef enum {
    DTN_ETHOSU_NO_TABLE,
    DTN_ETHOSU_TABLE_8,
    DTN_ETHOSU_TABLE_16, /**< 512 segments of 128 16-bit values each */
    DTN_ETHOSU_TABLE_32,
    DTN_ETHOSU_TABLE_8_16, /**< 256 entries of 16 bits: Ethos-U85, as the following */
    DTN_ETHOSU_TABLE_16_32 /**< as DTN_ETHOSU_TABLE_16, with 7 more bits */
} dtn_ethosu_table_t;

/** Conversion of scaled values to outputs. */
typedef struct {
    dtn_ethosu_rounding_t rounding;
    int32_t zero_point;
    int32_t lo;
    int32_t hi;
    dtn_ethosu_table_t table;
    bool index_is_signed; /**< for a table of 256: -128 is the first entry */
    uint32_t table_at;    /**< offset in the SHRAM */
    uint32_t table_bytes;
    const uint8_t *table_data; /**< its bytes */
} dtn_ethosu_output_t;

/** Reads the registers of the output's precision and activation; `map` is the output. */
dtn_ethosu_fault_t dtn_ethosu_output(dtn_ethosu_t *m, const dtn_ethosu_map_t *map, dtn_ethosu_output_t *output);

/** The factor of OFM_SCALE; its scale is signed or not. */
dtn_ethosu_fault_t dtn_ethosu_ofm_factor(dtn_ethosu_t *m, bool is_signed, dtn_ethosu_factor_t *factor);

/** value * factor, rounded; unspecified if it exceeds 64 bits. */
int64_t dtn_ethosu_scaled(int64_t value, dtn_ethosu_factor_t factor, dtn_ethosu_rounding_t rounding);

/** The output for a scaled value: adds the zero point, clamps to the limits, and applies the table. */
int32_t dtn_ethosu_requantize(const dtn_ethosu_output_t *output, int64_t value);

/** The number of zeros above the highest bit that is set. */
static inline int64_t dtn_ethosu_leading_zeros(int32_t value)
{
    int64_t count = 0;
    for (uint32_t bits = (uint32_t)value; count < 32 && (bits & UINT32_C(0x80000000)) == 0; bits <<= 1) {
        count++;
    }
    return count;
}
