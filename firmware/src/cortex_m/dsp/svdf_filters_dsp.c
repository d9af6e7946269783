#include "../scale.h"
#include "../svdf_filters.h"
#include "instructions_dsp.h"

void dtn_cm_scale_sums(const dtn_cm_sums_scale_t *scale, int32_t *sums, size_t count)
{
    if (scale->shift >= 0) {
        dtn_cm_scale_sums_general(scale, sums, count);
        return;
    }
    /* As `dtn_cm_scaled` explains it. A copy, which no store to a sum can change. */
    const dtn_cm_sums_scale_t s = *scale;
    for (size_t i = 0; i < count; i++) {
        int64_t product = (int64_t)sums[i] * s.multiplier + dtn_cm_half((uint32_t)sums[i]);
        int32_t scaled = (((int32_t)(product >> 31) >> (-s.shift - 1)) + 1) >> 1;
        sums[i] = dtn_cm_clamp(dtn_cm_plus(scaled, s.offset), s.lo, s.hi);
    }
}

/* The elements from `first` on, one by one, and the newest. */
static uint32_t last_s16(int16_t *past, const int16_t *times, size_t first, size_t steps, int32_t newest, uint32_t sum)
{
    for (size_t i = first; i + 1 < steps; i++) {
        past[i] = past[i + 1];
        sum += (uint32_t)(past[i] * times[i]);
    }
    past[steps - 1] = (int16_t)newest;
    return sum + (uint32_t)(past[steps - 1] * times[steps - 1]);
}

void dtn_cm_step_filters_s16(int16_t *past, const int16_t *times, size_t steps, int32_t *newest, size_t filters)
{
    for (size_t j = 0; j < filters; j++, past += steps, times += steps) {
        uint32_t sum = 0;
        size_t i = 0;
        for (; i + 2 < steps; i += 2) {
            uint32_t two = dtn_dsp_load(past + i + 1);
            memcpy(past + i, &two, sizeof two);
            sum = dtn_dsp_both(two, dtn_dsp_load(times + i), sum);
        }
        newest[j] = (int32_t)last_s16(past, times, i, steps, newest[j], sum);
    }
}

/* The elements from `first` on, one by one, and the newest. */
static int32_t last_s8(int8_t *past, const int8_t *times, size_t first, size_t steps, int32_t zero_point,
                       int32_t newest, int32_t sum)
{
    for (size_t i = first; i + 1 < steps; i++) {
        past[i] = past[i + 1];
        sum += (past[i] - zero_point) * times[i];
    }
    past[steps - 1] = (int8_t)newest;
    return sum + (past[steps - 1] - zero_point) * times[steps - 1];
}

void dtn_cm_step_filters_s8(int8_t *past, const int8_t *times, size_t steps, int32_t zero_point, int32_t *newest,
                            size_t filters)
{
    const uint32_t offsets = dtn_dsp_twice(-zero_point);
    for (size_t j = 0; j < filters; j++, past += steps, times += steps) {
        uint32_t sum = 0;
        size_t i = 0;
        for (; i + 4 < steps; i += 4) {
            uint32_t four = dtn_dsp_load(past + i + 1), weights = dtn_dsp_load(times + i);
            memcpy(past + i, &four, sizeof four);
            sum = dtn_dsp_both(dtn_dsp_add_even(offsets, four), dtn_dsp_even(weights), sum);
            sum = dtn_dsp_both(dtn_dsp_add_odd(offsets, four), dtn_dsp_odd(weights), sum);
        }
        newest[j] = last_s8(past, times, i, steps, zero_point, newest[j], (int32_t)sum);
    }
}
