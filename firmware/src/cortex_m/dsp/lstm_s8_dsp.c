#include "../double_rounding.h"
#include "../lstm_s8.h"
#include "instructions_dsp.h"

static inline int32_t dtn_lstm_times(int32_t a, int32_t b)
{
    return dtn_dsp_plus_product(a, b, 1 << 14) >> 15;
}

static inline int32_t dtn_lstm_scaled(int32_t number, int32_t multiplier, int32_t drop)
{
#if defined(__ARM_FEATURE_DSP)
    const int32_t unit = 1 << 30;
    int32_t low, top;
    __asm__(DTN_DSP_TOP("%[number]", "%[multiplier]", "%[unit]", "%[low]", "%[top]")
            : [low] "=&r"(low), [top] "=&r"(top)
            : [number] "r"(number), [multiplier] "r"(multiplier), [unit] "r"(unit));
#else
    int32_t top = (int32_t)(((int64_t)number * multiplier + dtn_cm_half((uint32_t)number)) >> 32);
#endif
    return ((top >> drop) + 1) >> 1;
}

static inline int32_t dtn_lstm_s16(int32_t x)
{
    return dtn_dsp_s16(x);
}

static inline int32_t dtn_lstm_s8(int32_t x)
{
    return dtn_dsp_s8(x);
}

#include "../lstm_functions.h"
