/**
 * @file
 * Float32 numbers of operators: their bits, limits, square roots.
 */
#ifndef DTN_TFLITE_FLOAT32_COMMON_H
#define DTN_TFLITE_FLOAT32_COMMON_H

#include <float.h>
#include <string.h>

#include "integer_common.h"

/** The float32 with these bits. */
static inline float dtn_tfl_real(int32_t bits)
{
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

/** A number within limits; NaN stays. */
static inline float dtn_tfl_clamp_f32(float x, float low, float high)
{
    return x < low ? low : x > high ? high : x;
}

/** The square root in float64, by Newton's method from a guess of half the exponent; NaN below 0. */
static inline double dtn_tfl_square_root(double x)
{
    if (!(x > 0.0) || x > 1e300) {
        return x == 0.0 || x > 0.0 ? x : (x - x) / (x - x);
    }
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits >> 1) + (UINT64_C(1023) << 51);
    double root;
    memcpy(&root, &bits, sizeof root);
    for (int32_t i = 0; i < 5; i++) {
        root = 0.5 * (root + x / root);
    }
    return root;
}

/** The largest whole number that is not above x. */
static inline float dtn_tfl_floor(float x)
{
    const float most = 8388608.0F; /* 2^23: from here on all are whole */
    if (!(x > -most && x < most)) {
        return x;
    }
    float whole = (float)(int32_t)x;
    float below = whole > x ? whole - 1.0F : whole;
    /* -0 stays. */
    return below == x ? x : below;
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

/** True for a call of float32 with one input and one output, both of `rows` x `depth` elements. */
static inline bool dtn_tfl_are_rows_f32(const dtn_tensor_t *values, int32_t rows, int32_t depth)
{
    return dtn_cm_are(values, 2, DTN_TYPE_F32) && dtn_cm_has_size(&values[0], DTN_CM_LIST(4, rows, depth)) &&
           dtn_cm_has_size(&values[1], DTN_CM_LIST(4, rows, depth));
}

/** The maximum of a row; NaN does not count. */
static inline float dtn_tfl_maximum_f32(const float *row, int32_t depth)
{
    float maximum = -FLT_MAX;
    for (int32_t i = 0; i < depth; i++) {
        maximum = row[i] > maximum ? row[i] : maximum;
    }
    return maximum;
}

#endif /* DTN_TFLITE_FLOAT32_COMMON_H */
