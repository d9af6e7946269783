/**
 * @file
 * The check of a reduction's dimensions: those that stay and those that are reduced.
 */
#ifndef DTN_TFLITE_REDUCTIONS_H
#define DTN_TFLITE_REDUCTIONS_H

#include "integer_common.h"

/** True when the places along both sets of dimensions, as many as a value has elements, lie inside it. */
static inline bool dtn_tfl_is_reduction(const int32_t *kept, const int32_t *kept_strides, const int32_t *reduced,
                                        const int32_t *reduced_strides, uint32_t elements)
{
    uint64_t last = 0;
    uint64_t places = 1;
    for (int32_t d = 0; d < DTN_INDEX_RANK; d++) {
        if (reduced[d] < 1 || reduced_strides[d] < 0) {
            return false;
        }
        uint64_t along = (uint64_t)(uint32_t)reduced[d] * (uint32_t)kept[d];
        if (last >= elements || along > elements || places > elements) {
            return false;
        }
        places *= along;
        last += (uint64_t)(uint32_t)(reduced[d] - 1) * (uint32_t)reduced_strides[d];
        last += (uint64_t)(uint32_t)(kept[d] - 1) * (uint32_t)kept_strides[d];
    }
    return last < elements && places == elements;
}

/** The elements of a reduction but for its last dimension. */
static inline uint32_t dtn_tfl_reduced_rows(const int32_t *reduced)
{
    uint32_t rows = 1;
    for (int32_t d = 0; d < DTN_INDEX_RANK - 1; d++) {
        rows *= (uint32_t)reduced[d];
    }
    return rows;
}

#endif /* DTN_TFLITE_REDUCTIONS_H */
