/**
 * @file
 * The exponential function in float64, without a library of mathematics.
 */
#ifndef DTN_TFLITE_EXPONENTIAL_H
#define DTN_TFLITE_EXPONENTIAL_H

#include <stdint.h>
#include <string.h>

/** exp(x) with a relative error of a few times 2^-53; 0 and infinity beyond what float32 holds. NaN stays. */
static inline double dtn_tfl_exponential(double x)
{
    const double log2_of_e = 1.4426950408889634074;
    const double ln2_high = 0.69314718036912381649; /* 33 bits of ln 2, so that products with n are exact */
    const double ln2_low = 1.9082149292705877e-10;
    if (!(x > -150.0)) {
        return x == x ? 0.0 : x;
    }
    x = x > 150.0 ? 150.0 : x;
    int32_t n = (int32_t)(x * log2_of_e + (x < 0.0 ? -0.5 : 0.5));
    double r = (x - (double)n * ln2_high) - (double)n * ln2_low;
    double sum = 1.0;
    for (int32_t k = 14; k >= 1; k--) {
        sum = 1.0 + sum * r / (double)k;
    }
    uint64_t bits = (uint64_t)(1023 + n) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return sum * power;
}

/** exp(x), rounded once. */
static inline float dtn_tfl_exponential_f32(float x)
{
    return (float)dtn_tfl_exponential((double)x);
}

#endif /* DTN_TFLITE_EXPONENTIAL_H */
