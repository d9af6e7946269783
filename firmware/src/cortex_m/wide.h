/**
 * @file
 * What the operators for activations of 16 bits share: int16 whose zero point is 0, with weights of int8.
 *
 * The last function is inner work, of which each kind of core has its own, as inner.h says.
 */
#ifndef DTN_WIDE_H
#define DTN_WIDE_H

#include "../kernels/requant.h"
#include "cortex_m.h"
#include "dot.h"

/** Most products under a sum: what they add up to is below 2^38. */
#define DTN_CM_MOST_WIDE_PRODUCTS 65536

/** The elements of a value of int16. */
static inline uint32_t dtn_cm_wide_elements(const dtn_tensor_t *value)
{
    return value->bytes / (uint32_t)sizeof(int16_t);
}

/** True for the limits of an output. */
static inline bool dtn_cm_is_wide_range(int32_t act_min, int32_t act_max)
{
    return INT16_MIN <= act_min && act_min <= act_max && act_max <= INT16_MAX;
}

/** A number within limits. */
static inline int16_t dtn_cm_wide(int64_t value, int32_t lo, int32_t hi)
{
    return (int16_t)(value < lo ? lo : value > hi ? hi : value);
}

/** wide.c: adds the products of `count` inputs with four rows of weights to the rows' sums. */
void dtn_cm_add_wide(const int16_t *inputs, const int8_t *const rows[DTN_CM_ROWS], size_t count,
                     int64_t sums[DTN_CM_ROWS]);

#endif /* DTN_WIDE_H */
