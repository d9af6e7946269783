/**
 * @file
 * Checks and numbers of the operators of TFLite Micro's signal library.
 */
#ifndef DTN_TFLITE_SIGNAL_COMMON_H
#define DTN_TFLITE_SIGNAL_COMMON_H

#include "deuteron/tflite.h"
#include "fixed_point.h"

/** Bits of a number without the zeros above. */
static inline int32_t dtn_tfl_bits(uint32_t x)
{
    return 32 - dtn_tfl_leading_zeros(x);
}

/** True for `count` elements of a type of so many bytes. */
static inline bool dtn_tfl_is_vector(const dtn_tensor_t *value, uint32_t type, int32_t item, int32_t count)
{
    return value->type == type && dtn_cm_has_size(value, DTN_CM_LIST(item, count));
}

/** A number within int16. */
static inline int16_t dtn_tfl_s16(int32_t x)
{
    return (int16_t)dtn_cm_clamp(x, INT16_MIN, INT16_MAX);
}

#endif /* DTN_TFLITE_SIGNAL_COMMON_H */
