#include "output_scale.h"
#include "accesses.h"

#include <string.h>

/* Activation functions, and the ranges of activations. */
enum { NO_FUNCTION = 0, TANH = 3, SIGMOID = 4, FIRST_TABLE = 16, LAST_TABLE = 23 };
enum { OF_OUTPUT = 0, OF_UINT8 = 2, OF_INT8 = 3, OF_INT16 = 5 };

/* Tables are at the end of the SHRAM, 256 bytes each; larger ones span several slots. */
enum { TABLES = 2048, TABLE = 256 };

/* Rounding modes of an Ethos-U85, by their register values. */
static const dtn_ethosu_rounding_t roundings_85[] = {DTN_ETHOSU_DOUBLE, DTN_ETHOSU_NATURAL, DTN_ETHOSU_DOUBLE_UP,
                                                     DTN_ETHOSU_AWAY,   DTN_ETHOSU_TO_ZERO, DTN_ETHOSU_TRUNCATE};
enum { TANH_85 = 10, SIGMOID_85 = 11 };
enum { ROUNDINGS_85 = 6, ROUNDING_85_AT = 13, TABLES_85 = 2048, NO_CLIP_AT = 12 };

/* A table function of an Ethos-U85: bytes of inputs and outputs, and of the table. */
typedef struct {
    uint8_t function;
    dtn_ethosu_table_t table;
    uint8_t out_bytes;
    uint16_t bytes;
    bool index_is_signed;
} function_85_t;

static const function_85_t functions_85[] = {
    {1, DTN_ETHOSU_TABLE_8, 1, 256, false},   {4, DTN_ETHOSU_TABLE_8, 1, 256, true},
    {5, DTN_ETHOSU_TABLE_8_16, 2, 512, true}, {7, DTN_ETHOSU_TABLE_32, 4, 1024, true},
    {8, DTN_ETHOSU_TABLE_16, 2, 2048, true},  {9, DTN_ETHOSU_TABLE_16_32, 4, 2048, true},
};

static dtn_ethosu_fault_t read_table_85(dtn_ethosu_t *m, const dtn_ethosu_map_t *map, uint32_t function,
                                        dtn_ethosu_output_t *output)
{
    for (size_t i = 0; i < sizeof functions_85 / sizeof functions_85[0]; i++) {
        const function_85_t *f = &functions_85[i];
        if (f->function != function) {
            continue;
        }
        uint32_t start = dtn_ethosu_field(m, REG_ACTIVATION, 5, 3) * f->bytes;
        if (f->out_bytes != map->bytes) {
            return dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, REG_OFM_PRECISION);
        }
        if (start + f->bytes > TABLES_85) {
            return dtn_ethosu_fault(m, DTN_ETHOSU_SHRAM, start);
        }
        output->table = f->table;
        output->index_is_signed = f->index_is_signed;
        output->table_data = m->is_check ? NULL : m->memory.shram + start;
        dtn_ethosu_report_bytes(m, DTN_ETHOSU_PART_TABLE, DTN_ETHOSU_SHRAM_REGION, start, f->bytes);
        /* Values are clamped to the table's range. */
        bool is_wide = f->table == DTN_ETHOSU_TABLE_16 || f->table == DTN_ETHOSU_TABLE_16_32;
        int32_t least_index = is_wide ? INT16_MIN : f->index_is_signed ? INT8_MIN : 0;
        int32_t most_index = is_wide ? INT16_MAX : f->index_is_signed ? INT8_MAX : UINT8_MAX;
        output->lo = output->lo > least_index ? output->lo : least_index;
        output->hi = output->hi < most_index ? output->hi : most_index;
        return output->lo <= output->hi ? DTN_ETHOSU_OK : dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, REG_ACTIVATION_MIN);
    }
    return dtn_ethosu_fault(m, function == TANH_85 || function == SIGMOID_85 ? DTN_ETHOSU_BUILT_IN : DTN_ETHOSU_FIELD,
                            REG_ACTIVATION);
}

/* Reads dtn_ethosu_output for an Ethos-U85, whose registers are set. */
static dtn_ethosu_fault_t read_output_85(dtn_ethosu_t *m, const dtn_ethosu_map_t *map, dtn_ethosu_output_t *output)
{
    uint32_t rounding = dtn_ethosu_payload_param(m, REG_OFM_SCALE) >> ROUNDING_85_AT & 7U;
    uint32_t function = dtn_ethosu_field(m, REG_ACTIVATION, 0, 5);
    if (rounding >= ROUNDINGS_85) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, REG_OFM_SCALE);
    }
    *output = (dtn_ethosu_output_t){.rounding = roundings_85[rounding],
                                    .zero_point = map->zero_point,
                                    .lo = INT32_MIN,
                                    .hi = INT32_MAX,
                                    .table = DTN_ETHOSU_NO_TABLE};
    bool is_held = dtn_ethosu_field(m, REG_ACTIVATION, NO_CLIP_AT, 1) == 0;
    if (is_held) {
        uint32_t lo = dtn_ethosu_short(m, REG_ACTIVATION_MIN);
        uint32_t hi = dtn_ethosu_short(m, REG_ACTIVATION_MAX);
        output->lo = map->is_signed ? (int16_t)lo : (int32_t)lo;
        output->hi = map->is_signed ? (int16_t)hi : (int32_t)hi;
    }
    if (output->lo > output->hi) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, REG_ACTIVATION_MIN);
    }
    /* Their effect on 64-bit results is unknown; no table has such results. */
    if (map->bytes == 8 && map->zero_point != 0) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_UNSUPPORTED, REG_OFM_ZERO_POINT);
    }
    if (map->bytes == 8 && is_held) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_UNSUPPORTED, REG_ACTIVATION);
    }
    return function == NO_FUNCTION ? DTN_ETHOSU_OK : read_table_85(m, map, function, output);
}

static dtn_ethosu_fault_t read_table(dtn_ethosu_t *m, const dtn_ethosu_map_t *map, uint32_t index,
                                     dtn_ethosu_output_t *output)
{
    uint32_t bytes = map->bytes == 1 ? 256 : map->bytes == 2 ? 2048 : 1024;
    uint32_t shram = m->config->shram_bytes;
    uint32_t start = shram - TABLES + index * TABLE;
    /* Tables of 512 segments are for signed values. */
    if (map->bytes == 2 && !map->is_signed) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, REG_OFM_PRECISION);
    }
    if (start + bytes > shram) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_SHRAM, start);
    }
    output->table = map->bytes == 1 ? DTN_ETHOSU_TABLE_8 : map->bytes == 2 ? DTN_ETHOSU_TABLE_16 : DTN_ETHOSU_TABLE_32;
    output->table_at = start;
    output->table_bytes = bytes;
    output->table_data = m->is_check ? NULL : m->memory.shram + start;
    return DTN_ETHOSU_OK;
}

static int32_t max_of(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static int32_t min_of(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static void clamp_limits(dtn_ethosu_output_t *output, int32_t lo, int32_t hi)
{
    output->lo = max_of(output->lo, lo);
    output->hi = min_of(output->hi, hi);
}

static dtn_ethosu_fault_t read_range(dtn_ethosu_t *m, const dtn_ethosu_map_t *map, dtn_ethosu_output_t *output)
{
    uint32_t lo = dtn_ethosu_short(m, REG_ACTIVATION_MIN);
    uint32_t hi = dtn_ethosu_short(m, REG_ACTIVATION_MAX);
    uint32_t range = dtn_ethosu_field(m, REG_ACTIVATION, 12, 3);
    output->lo = INT32_MIN;
    output->hi = INT32_MAX;
    /* The limits have 16 bits, so that 32-bit outputs use them only if a range is set. */
    if (map->bytes < 4 || range != OF_OUTPUT) {
        output->lo = map->is_signed ? (int16_t)lo : (int32_t)lo;
        output->hi = map->is_signed ? (int16_t)hi : (int32_t)hi;
    }
    if (range == OF_UINT8) {
        clamp_limits(output, 0, UINT8_MAX);
    } else if (range == OF_INT8) {
        clamp_limits(output, INT8_MIN, INT8_MAX);
    } else if (range == OF_INT16) {
        clamp_limits(output, INT16_MIN, INT16_MAX);
    } else if (range != OF_OUTPUT) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, REG_ACTIVATION);
    } else if (map->bytes == 1) {
        clamp_limits(output, map->is_signed ? INT8_MIN : 0, map->is_signed ? INT8_MAX : UINT8_MAX);
    }
    output->index_is_signed = range == OF_INT8 || (range == OF_OUTPUT && map->is_signed);
    return output->lo <= output->hi ? DTN_ETHOSU_OK : dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, REG_ACTIVATION_MIN);
}

dtn_ethosu_fault_t dtn_ethosu_output(dtn_ethosu_t *m, const dtn_ethosu_map_t *map, dtn_ethosu_output_t *output)
{
    dtn_ethosu_fault_t fault =
        dtn_ethosu_need_shorts(m, DTN_ETHOSU_LIST(REG_ACTIVATION, REG_ACTIVATION_MIN, REG_ACTIVATION_MAX));
    if (fault == DTN_ETHOSU_OK && dtn_ethosu_is_u85(m)) {
        fault = dtn_ethosu_need_longs(m, DTN_ETHOSU_LIST(REG_OFM_SCALE));
        return fault == DTN_ETHOSU_OK ? read_output_85(m, map, output) : fault;
    }
    if (fault == DTN_ETHOSU_OK) {
        fault = read_range(m, map, output);
    }
    uint32_t rounding = dtn_ethosu_field(m, REG_OFM_PRECISION, 14, 2);
    if (fault != DTN_ETHOSU_OK) {
        return fault;
    }
    if (rounding > DTN_ETHOSU_NATURAL) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, REG_OFM_PRECISION);
    }
    output->rounding = (dtn_ethosu_rounding_t)rounding;
    output->zero_point = map->zero_point;
    output->table = DTN_ETHOSU_NO_TABLE;
    output->table_at = 0;
    output->table_bytes = 0;
    output->table_data = NULL;
    uint32_t function = dtn_ethosu_field(m, REG_ACTIVATION, 0, 5);
    if (function >= FIRST_TABLE && function <= LAST_TABLE) {
        return read_table(m, map, function - FIRST_TABLE, output);
    }
    if (function == TANH || function == SIGMOID) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_BUILT_IN, REG_ACTIVATION);
    }
    return function == NO_FUNCTION ? DTN_ETHOSU_OK : dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, REG_ACTIVATION);
}

dtn_ethosu_fault_t dtn_ethosu_ofm_factor(dtn_ethosu_t *m, bool is_signed, dtn_ethosu_factor_t *factor)
{
    dtn_ethosu_fault_t fault = dtn_ethosu_need_longs(m, DTN_ETHOSU_LIST(REG_OFM_SCALE));
    uint32_t scale = dtn_ethosu_payload(m, REG_OFM_SCALE);
    factor->scale = is_signed ? (int64_t)(int32_t)scale : (int64_t)scale;
    factor->shift = dtn_ethosu_payload_param(m, REG_OFM_SCALE) & 0x3FU;
    return fault;
}

/* (high * 2^32 + low) / 2^shift, rounded down; low is below 2^32, shift 0..63. */
static int64_t shifted(int64_t high, uint64_t low, uint32_t shift)
{
    if (shift >= 32) {
        return high >> (shift - 32);
    }
    return (int64_t)(((uint64_t)high << (32 - shift)) | low >> shift);
}

/* The bias before a division by 2^shift, shift 1..63, of a value with this sign. */
static int64_t bias_of(dtn_ethosu_rounding_t rounding, uint32_t shift, bool is_negative)
{
    int64_t half = (int64_t)(UINT64_C(1) << (shift - 1));
    int64_t first = shift > 31 ? INT64_C(1) << 30 : 0;
    switch (rounding) {
    case DTN_ETHOSU_TRUNCATE:
        return 0;
    case DTN_ETHOSU_DOUBLE:
        return half + (is_negative ? -first : first);
    case DTN_ETHOSU_DOUBLE_UP:
        return half + first;
    case DTN_ETHOSU_AWAY:
        return is_negative ? half - 1 : half;
    case DTN_ETHOSU_TO_ZERO:
        return is_negative ? (int64_t)((UINT64_C(1) << shift) - 1U) : 0;
    default:
        return half;
    }
}

int64_t dtn_ethosu_scaled(int64_t value, dtn_ethosu_factor_t factor, dtn_ethosu_rounding_t rounding)
{
    if (factor.shift == 0) {
        return (int64_t)((uint64_t)value * (uint64_t)factor.scale);
    }
    int64_t bias = bias_of(rounding, factor.shift, value < 0);
    if (value == (int32_t)value && factor.scale == (int32_t)factor.scale && factor.shift < 62) {
        return (value * factor.scale + bias) >> factor.shift;
    }
    /* In parts of 32 bits: value = top * 2^32 + bottom. */
    int64_t top = value >> 32;
    int64_t bottom = (int64_t)(value & INT64_C(0xFFFFFFFF));
    uint64_t low = (uint64_t)bottom * (uint64_t)factor.scale;
    /* The product of 32 by 33 bits, negative if the scale is. */
    uint64_t carried = factor.scale < 0 ? (uint64_t)((int64_t)low >> 32) : low >> 32;
    uint64_t sum = (low & UINT64_C(0xFFFFFFFF)) + ((uint64_t)bias & UINT64_C(0xFFFFFFFF));
    int64_t high = (int64_t)((uint64_t)top * (uint64_t)factor.scale + carried + (uint64_t)(bias >> 32) + (sum >> 32));
    return shifted(high, sum & UINT64_C(0xFFFFFFFF), factor.shift);
}

static int32_t word_at(const uint8_t *table, uint32_t index)
{
    int32_t word;
    memcpy(&word, table + 4 * (size_t)index, sizeof word);
    return word;
}

/* Interpolates: entry n has a base in its low half and a slope in its high half, for 128 values; returns 128 times it.
 */
static int32_t between(const uint8_t *table, int32_t value)
{
    uint32_t place = (uint32_t)(value + 32768);
    uint32_t word = (uint32_t)word_at(table, place >> 7);
    int32_t base = (int16_t)(word & 0xFFFFU);
    int32_t slope = (int16_t)(word >> 16);
    return base * 128 + slope * (int32_t)(place & 127U);
}

static int32_t half_word_at(const uint8_t *table, uint32_t index)
{
    int16_t half;
    memcpy(&half, table + 2 * (size_t)index, sizeof half);
    return half;
}

int32_t dtn_ethosu_requantize(const dtn_ethosu_output_t *output, int64_t value)
{
    int64_t sum = (int64_t)((uint64_t)value + (uint64_t)(int64_t)output->zero_point);
    int32_t held = sum < output->lo ? output->lo : sum > output->hi ? output->hi : (int32_t)sum;
    if (output->table == DTN_ETHOSU_NO_TABLE) {
        return held;
    }
    uint32_t index = ((uint32_t)held + (output->index_is_signed ? 128U : 0U)) & 0xFFU;
    switch (output->table) {
    case DTN_ETHOSU_TABLE_8:
        return (int8_t)output->table_data[index];
    case DTN_ETHOSU_TABLE_8_16:
        return half_word_at(output->table_data, index);
    case DTN_ETHOSU_TABLE_16:
        return (between(output->table_data, held) + 64) >> 7;
    case DTN_ETHOSU_TABLE_16_32:
        return between(output->table_data, held);
    default:
        return word_at(output->table_data, index);
    }
}
