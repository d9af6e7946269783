/**
 * @file
 * Copies of bytes, 16 at a time, and sums scaled with channels in the lanes.
 *
 * Loops whose last turn is predicated (`wlstp`, `letp`) are small pieces of assembler, since GCC 12 makes none; the
 * rest is intrinsics. Predicated lanes touch no memory.
 */
#pragma once

#include <arm_mve.h>

#include "../scale.h"
#include "double_rounding_mve.h"

/** Copies bytes. */
static inline void dtn_cm_copy_bytes(int8_t *to, const int8_t *from, size_t count)
{
    __asm__ volatile("wlstp.8 lr, %[count], 2f\n"
                     "1:\n"
                     "vldrb.8 q0, [%[from]], #16\n"
                     "vstrb.8 q0, [%[to]], #16\n"
                     "letp lr, 1b\n"
                     "2:\n"
                     : [to] "+&r"(to), [from] "+&r"(from)
                     : [count] "r"(count)
                     : "q0", "lr", "memory");
}

/** Fills bytes. */
static inline void dtn_cm_fill_bytes(int8_t *to, int8_t value, size_t count)
{
    __asm__ volatile("vdup.8 q0, %[value]\n"
                     "wlstp.8 lr, %[count], 2f\n"
                     "1:\n"
                     "vstrb.8 q0, [%[to]], #16\n"
                     "letp lr, 1b\n"
                     "2:\n"
                     : [to] "+&r"(to)
                     : [count] "r"(count), [value] "r"(value)
                     : "q0", "lr", "memory");
}

/** The sum of bytes. */
static inline int32_t dtn_cm_total(const int8_t *bytes, size_t count)
{
    int32_t sum = 0;
    __asm__ volatile("wlstp.8 lr, %[count], 2f\n"
                     "1:\n"
                     "vldrb.8 q0, [%[bytes]], #16\n"
                     "vaddva.s8 %[sum], q0\n"
                     "letp lr, 1b\n"
                     "2:\n"
                     : [bytes] "+&r"(bytes), [sum] "+&Te"(sum)
                     : [count] "r"(count)
                     : "q0", "lr", "memory");
    return sum;
}

/** Factors of four channels, and what their outputs have in common. */
typedef struct {
    int32x4_t multipliers;
    int32x4_t shifts;
    int32_t offset;
    int32x4_t lo;
    int32x4_t hi;
} dtn_cm_lanes_t;

/** Outputs of four channels whose shifts are all below 0, as `dtn_cm_scaled` has them. */
static inline int32x4_t dtn_cm_scaled_lanes(int32x4_t sums, const dtn_cm_lanes_t *lanes)
{
    int32x4_t values = vrshlq_s32(dtn_cm_times(sums, lanes->multipliers), lanes->shifts);
    values = vaddq_n_s32(values, lanes->offset);
    return vminq_s32(vmaxq_s32(values, lanes->lo), lanes->hi);
}
