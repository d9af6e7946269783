#include <arm_mve.h>

#include "../svdf_filters.h"
#include "double_rounding_mve.h"

enum { LANES = 4 };

void dtn_cm_scale_sums(const dtn_cm_sums_scale_t *scale, int32_t *sums, size_t count)
{
    if (scale->shift >= 0) {
        dtn_cm_scale_sums_general(scale, sums, count);
        return;
    }
    const int32x4_t multipliers = vdupq_n_s32(scale->multiplier);
    const int32x4_t lo = vdupq_n_s32(scale->lo), hi = vdupq_n_s32(scale->hi);
    const int32_t shift = scale->shift, offset = scale->offset;
    for (size_t i = 0; i < count; i += LANES) {
        const mve_pred16_t there = vctp32q((uint32_t)(count - i));
        int32x4_t values = vrshlq_n_s32(dtn_cm_times(vldrwq_z_s32(sums + i, there), multipliers), shift);
        values = vminq_s32(vmaxq_s32(vaddq_n_s32(values, offset), lo), hi);
        vstrwq_p_s32(sums + i, values, there);
    }
}

void dtn_cm_step_filters_s16(int16_t *past, const int16_t *times, size_t steps, int32_t *newest, size_t filters)
{
    for (size_t j = 0; j < filters; j++) {
        const int16_t *from = past + 1;
        int32_t sum = 0;
        __asm__ volatile("wlstp.16 lr, %[count], 2f\n"
                         "1:\n"
                         "vldrh.16 q0, [%[from]], #16\n"
                         "vldrh.16 q1, [%[times]], #16\n"
                         "vstrh.16 q0, [%[past]], #16\n"
                         "vmladava.s16 %[sum], q0, q1\n"
                         "letp lr, 1b\n"
                         "2:\n"
                         : [from] "+&r"(from), [times] "+&r"(times), [past] "+&r"(past), [sum] "+&Te"(sum)
                         : [count] "r"(steps - 1)
                         : "q0", "q1", "lr", "memory");
        /* A turn goes on by whole vectors. */
        const size_t beyond = (steps + 6) / 8 * 8 - (steps - 1);
        past -= beyond;
        times -= beyond;
        *past = (int16_t)newest[j];
        newest[j] = (int32_t)((uint32_t)sum + (uint32_t)(*past++ * *times++));
    }
}

void dtn_cm_step_filters_s8(int8_t *past, const int8_t *times, size_t steps, int32_t zero_point, int32_t *newest,
                            size_t filters)
{
    for (size_t j = 0; j < filters; j++) {
        const int8_t *from = past + 1;
        int32_t sum = 0, total = 0;
        __asm__ volatile(
            "wlstp.8 lr, %[count], 2f\n"
            "1:\n"
            "vldrb.8 q0, [%[from]], #16\n"
            "vldrb.8 q1, [%[times]], #16\n"
            "vstrb.8 q0, [%[past]], #16\n"
            "vmladava.s8 %[sum], q0, q1\n"
            "vaddva.s8 %[total], q1\n"
            "letp lr, 1b\n"
            "2:\n"
            : [from] "+&r"(from), [times] "+&r"(times), [past] "+&r"(past), [sum] "+&Te"(sum), [total] "+&Te"(total)
            : [count] "r"(steps - 1)
            : "q0", "q1", "lr", "memory");
        /* A turn goes on by whole vectors. */
        const size_t beyond = (steps + 14) / 16 * 16 - (steps - 1);
        past -= beyond;
        times -= beyond;
        *past = (int8_t)newest[j];
        newest[j] = sum - zero_point * total + (*past - zero_point) * *times;
        past++;
        times++;
    }
}
