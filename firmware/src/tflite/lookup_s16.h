/**
 * @file
 * Functions of int16 by 512 pieces of straight lines.
 */
#ifndef DTN_TFLITE_LOOKUP_S16_H
#define DTN_TFLITE_LOOKUP_S16_H

#include "integer_common.h"

/** Values of a table: one beyond the last piece. */
enum { DTN_TFL_TABLE_VALUES = 513 };

/** True for a table. */
static inline bool dtn_tfl_is_table(const dtn_tensor_t *value)
{
    return value->type == DTN_TYPE_S16 && value->bytes == DTN_TFL_TABLE_VALUES * sizeof(int16_t);
}

/** The function of a number: what a piece's slope adds is rounded to nearest, ties up. */
static inline int16_t dtn_tfl_look_up(const int16_t *table, int32_t x)
{
    size_t piece = (size_t)(256 + (x >> 7));
    int16_t slope = (int16_t)(table[piece + 1] - table[piece]);
    return (int16_t)(table[piece] + ((slope * (x & 127) + 64) >> 7));
}

#endif /* DTN_TFLITE_LOOKUP_S16_H */
