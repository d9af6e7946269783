/**
 * @file
 * What operators with numbers of float32 share.
 */
#ifndef DTN_TFLITE_REALS_H
#define DTN_TFLITE_REALS_H

#include <string.h>

#include "numbers.h"

/** The float32 with these bits. */
static inline float dtn_tfl_real(int32_t bits)
{
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

/** The nearest whole number, ties away from zero, at most 2^20 from zero; 0 for NaN. No stored value is further off. */
static inline int32_t dtn_tfl_nearest(float x)
{
    const float far = 1048576.0F;
    float near = x > far ? far : x < -far ? -far : x == x ? x : 0.0F;
    int32_t whole = (int32_t)near;
    float rest = near - (float)whole;
    return whole + (rest >= 0.5F ? 1 : 0) - (rest <= -0.5F ? 1 : 0);
}

#endif /* DTN_TFLITE_REALS_H */
