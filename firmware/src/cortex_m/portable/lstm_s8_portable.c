#include "../lstm_s8.h"
#include "../scale.h"

static inline int32_t dtn_lstm_times(int32_t a, int32_t b)
{
    return (a * b + (1 << 14)) >> 15;
}

static inline int32_t dtn_lstm_scaled(int32_t number, int32_t multiplier, int32_t drop)
{
    int64_t product = (int64_t)number * multiplier + dtn_cm_half((uint32_t)number);
    return (((int32_t)(product >> 32) >> drop) + 1) >> 1;
}

static inline int32_t dtn_lstm_s16(int32_t x)
{
    return dtn_cm_saturated_s16(x);
}

static inline int32_t dtn_lstm_s8(int32_t x)
{
    return dtn_cm_clamp(x, INT8_MIN, INT8_MAX);
}

#include "../lstm_functions.h"
