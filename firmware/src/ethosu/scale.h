/**
 * @file
 * From sums to outputs: scaling, the zero point, the limits and tables.
 */
#ifndef DTN_ETHOSU_SCALE_H
#define DTN_ETHOSU_SCALE_H

#include "map.h"

/** How a scaled value is rounded. */
typedef enum {
    DTN_EU_DOUBLE = 0,    /**< to nearest after the product, then again, a tie away from zero: as TFLite */
    DTN_EU_TRUNCATE = 1,  /**< down */
    DTN_EU_NATURAL = 2,   /**< to nearest, a tie up */
    DTN_EU_DOUBLE_UP = 3, /**< as DTN_EU_DOUBLE, but the first tie up: of an Ethos-U85, as all that follow */
    DTN_EU_AWAY = 4,      /**< to nearest, a tie away from zero */
    DTN_EU_TO_ZERO = 5,   /**< towards zero */
} dtn_eu_rounding_t;

/** The factor scale / 2^shift. */
typedef struct {
    int64_t scale;  /**< 33 bits with the sign, since the registers' 32 have none */
    uint32_t shift; /**< 0..63 */
} dtn_eu_factor_t;

/** Bias and factor of an output channel. */
typedef struct {
    int64_t bias;
    dtn_eu_factor_t factor;
} dtn_eu_channel_t;

/** What an activation does to a value that has been clamped. */
typedef enum {
    DTN_EU_NO_TABLE,
    DTN_EU_TABLE_8,
    DTN_EU_TABLE_16, /**< 512 lines through 128 values of 16 bits each */
    DTN_EU_TABLE_32,
    DTN_EU_TABLE_8_16, /**< 256 entries of 16 bits: of an Ethos-U85, as what follows */
    DTN_EU_TABLE_16_32 /**< as DTN_EU_TABLE_16, with 7 bits more */
} dtn_eu_table_t;

/** What makes outputs of scaled values. */
typedef struct {
    dtn_eu_rounding_t rounding;
    int32_t zero_point;
    int32_t lo;
    int32_t hi;
    dtn_eu_table_t table;
    bool index_is_signed; /**< of a table of 256: -128 is the first entry */
    uint32_t table_at;    /**< in the SHRAM */
    uint32_t table_bytes;
    const uint8_t *table_data; /**< there */
} dtn_eu_output_t;

/** Reads the registers of the output's precision and activation; `map` is the output. */
dtn_ethosu_fault_t dtn_eu_output(dtn_ethosu_t *m, const dtn_eu_map_t *map, dtn_eu_output_t *output);

/** The factor of OFM_SCALE, whose scale has a sign or not. */
dtn_ethosu_fault_t dtn_eu_ofm_factor(dtn_ethosu_t *m, bool is_signed, dtn_eu_factor_t *factor);

/** Makes OFM_SCALE's factor that of a product of 32 bits, which is shifted only: the scale is 1, or 2^30, which stands
 * for 1; others are a fault. */
dtn_ethosu_fault_t dtn_eu_shift_only(dtn_ethosu_t *m, dtn_eu_factor_t *factor);

/** value * factor, rounded; what does not fit 64 bits is unspecified. */
int64_t dtn_eu_scaled(int64_t value, dtn_eu_factor_t factor, dtn_eu_rounding_t rounding);

/** The output for a scaled value: with the zero point, held within the limits, through the table. */
int32_t dtn_eu_finished(const dtn_eu_output_t *output, int64_t value);

#endif /* DTN_ETHOSU_SCALE_H */
