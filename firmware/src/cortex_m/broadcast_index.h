/**
 * @file
 * An index per dimension over operands that broadcast, and their offsets.
 */
#pragma once

#include "cortex_m.h"

enum { DTN_INDEX_RANK = 5 };

/** True when the product of the dimensions is `count`, and no index leads outside a value of `elements`. */
static inline bool dtn_index_is_inside(const int32_t *dims, const int32_t *strides, uint32_t count, uint32_t elements)
{
    uint64_t product = 1;
    uint64_t last = 0;
    for (int32_t d = 0; d < DTN_INDEX_RANK; d++) {
        if (dims[d] < 1 || dims[d] > (int32_t)DTN_MAX_DIMENSION || strides[d] < 0) {
            return false;
        }
        product *= (uint32_t)dims[d];
        last += (uint64_t)(uint32_t)(dims[d] - 1) * (uint32_t)strides[d];
        if (product > count) {
            return false;
        }
    }
    return product == count && last < elements;
}

/** Advances the index within `dims`, the last dimension first. */
static inline void dtn_index_next(int32_t *index, const int32_t *dims)
{
    for (int32_t d = DTN_INDEX_RANK - 1; d >= 0; d--) {
        if (++index[d] < dims[d]) {
            return;
        }
        index[d] = 0;
    }
}

/** Returns the offset of the element at `index`. */
static inline uint32_t dtn_index_offset(const int32_t *index, const int32_t *strides)
{
    uint32_t place = 0;
    for (int32_t d = 0; d < DTN_INDEX_RANK; d++) {
        place += (uint32_t)index[d] * (uint32_t)strides[d];
    }
    return place;
}
