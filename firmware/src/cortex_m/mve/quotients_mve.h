/**
 * @file
 * Quotients of numbers of 64 bits by powers of two, to nearest, ties to even; the numbers are in the lanes, as halves.
 */
#pragma once

#include <arm_mve.h>

#include "predicate_clobber_mve.h"

/** Numbers of 64 bits. */
typedef struct {
    uint32x4_t low;
    int32x4_t high;
} dtn_mve_numbers_t;

/** Products with a number. */
static inline dtn_mve_numbers_t dtn_mve_products(int32x4_t values, int32x4_t factor)
{
    return (dtn_mve_numbers_t){vreinterpretq_u32_s32(vmulq_s32(values, factor)), vmulhq_s32(values, factor)};
}

/* The rest is assembler, since GCC 12 fails to compile predicates in loops at some levels. */

/** The sums of numbers, which fit 64 bits. */
static inline dtn_mve_numbers_t dtn_mve_sums(dtn_mve_numbers_t a, dtn_mve_numbers_t b)
{
    const uint32x4_t low = vaddq_u32(a.low, b.low);
    int32x4_t high = vaddq_s32(a.high, b.high);
    __asm__("vpt.u32 hi, %q[addend], %q[low]\n"
            "vaddt.i32 %q[high], %q[high], %[one]\n"
            : [high] "+w"(high)
            : [addend] "w"(a.low), [low] "w"(low), [one] "r"(1)
            : DTN_CM_PREDICATE "cc");
    return (dtn_mve_numbers_t){low, high};
}

/**
 * Numbers divided by 2^(32 + drop), drop 1..31: rounded with ties up. There is a tie if the lower half is 0 and only
 * the first bit behind the quotient is set; then the quotient's last bit is cleared.
 */
static inline int32x4_t dtn_mve_quotients(dtn_mve_numbers_t numbers, int32_t drop)
{
    int32x4_t behind = vshlq_r_s32(numbers.high, 32 - drop);
    int32x4_t quotients = vrshlq_n_s32(numbers.high, -drop);
    __asm__("vptt.i32 eq, %q[behind], %[half]\n"
            "vcmpt.i32 eq, %q[low], zr\n"
            "vbict.i32 %q[quotients], #1\n"
            : [quotients] "+w"(quotients)
            : [behind] "w"(behind), [low] "w"(numbers.low), [half] "r"(INT32_MIN)
            : DTN_CM_PREDICATE "cc");
    return quotients;
}
