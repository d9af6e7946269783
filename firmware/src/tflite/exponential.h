/**
 * @file
 * The exponential function, the logarithm and others in float64, without a library of mathematics.
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

/** exp(x) - 1, also for x near 0. */
static inline double dtn_tfl_exponential_less_one(double x)
{
    if (x > -0.01 && x < 0.01) {
        double sum = 1.0;
        for (int32_t k = 8; k >= 2; k--) {
            sum = 1.0 + sum * x / (double)k;
        }
        return sum * x;
    }
    return dtn_tfl_exponential(x) - 1.0;
}

/** tanh(x). */
static inline double dtn_tfl_tanh(double x)
{
    double y = dtn_tfl_exponential_less_one(2.0 * x);
    return x > 20.0 ? 1.0 : y / (y + 2.0);
}

/** ln(x) of a normal number above 0; NaN below it, and infinities for 0 and infinity. */
static inline double dtn_tfl_logarithm(double x)
{
    const double ln2 = 0.69314718055994530942;
    if (!(x > 0.0)) {
        return x == 0.0 ? -1.0 / 0.0 : x - x == 0.0 ? (x - x) / (x - x) : x / x;
    }
    if (x > 1e300) {
        return x;
    }
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int32_t exponent = (int32_t)(bits >> 52) - 1023;
    bits = (bits & ((UINT64_C(1) << 52) - 1U)) | (UINT64_C(1023) << 52);
    double mantissa;
    memcpy(&mantissa, &bits, sizeof mantissa);
    if (mantissa > 1.4142135623730951) {
        mantissa *= 0.5;
        exponent++;
    }
    double s = (mantissa - 1.0) / (mantissa + 1.0), square = s * s, sum = 0.0;
    for (int32_t k = 25; k >= 1; k -= 2) {
        sum = sum * square + 1.0 / (double)k;
    }
    return (double)exponent * ln2 + 2.0 * s * sum;
}

#endif /* DTN_TFLITE_EXPONENTIAL_H */
