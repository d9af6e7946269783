#include "../svdf_filters.h"

void dtn_cm_scale_sums(const dtn_cm_sums_scale_t *scale, int32_t *sums, size_t count)
{
    dtn_cm_scale_sums_general(scale, sums, count);
}

void dtn_cm_step_filters_s16(int16_t *past, const int16_t *times, size_t steps, int32_t *newest, size_t filters)
{
    for (size_t j = 0; j < filters; j++, past += steps, times += steps) {
        uint32_t sum = 0;
        for (size_t i = 0; i + 1 < steps; i++) {
            past[i] = past[i + 1];
            sum += (uint32_t)(past[i] * times[i]);
        }
        past[steps - 1] = (int16_t)newest[j];
        newest[j] = (int32_t)(sum + (uint32_t)(past[steps - 1] * times[steps - 1]));
    }
}

void dtn_cm_step_filters_s8(int8_t *past, const int8_t *times, size_t steps, int32_t zero_point, int32_t *newest,
                            size_t filters)
{
    for (size_t j = 0; j < filters; j++, past += steps, times += steps) {
        int32_t sum = 0;
        for (size_t i = 0; i + 1 < steps; i++) {
            past[i] = past[i + 1];
            sum += (past[i] - zero_point) * times[i];
        }
        past[steps - 1] = (int8_t)newest[j];
        newest[j] = sum + (past[steps - 1] - zero_point) * times[steps - 1];
    }
}
