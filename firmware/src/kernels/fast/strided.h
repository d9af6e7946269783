/**
 * @file
 * An iterator over two strided tensors, with neighbouring dimensions joined so that the innermost run is as long as it
 * can be.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Most dimensions of an iterator. */
enum { DTN_MAX_RANK = 6 };

/** Two tensors side by side: run `count` elements with steps `step` at offsets `at`, then `dtn_iterator_next`. */
typedef struct {
    size_t count;
    size_t step[2];
    size_t at[2];
    size_t rank; /* outer dimensions, innermost first */
    size_t dims[DTN_MAX_RANK];
    size_t strides[2][DTN_MAX_RANK];
    size_t index[DTN_MAX_RANK];
} dtn_iterator_t;

/** Starts an iterator over `dims`, outermost first; negative strides work modulo the size of size_t. */
static inline dtn_iterator_t dtn_iterator(const int32_t *dims, const int32_t *first, const int32_t *second, size_t rank)
{
    dtn_iterator_t iterator = {.count = 1};
    bool started = false;
    for (size_t i = rank; i-- > 0;) {
        size_t dim = (size_t)dims[i];
        size_t strides[2] = {(size_t)first[i], (size_t)second[i]};
        if (dim == 1) {
            continue;
        }
        if (!started) {
            iterator.count = dim;
            iterator.step[0] = strides[0];
            iterator.step[1] = strides[1];
            started = true;
        } else if (iterator.rank == 0 && strides[0] == iterator.step[0] * iterator.count &&
                   strides[1] == iterator.step[1] * iterator.count) {
            iterator.count *= dim;
        } else {
            iterator.dims[iterator.rank] = dim;
            iterator.strides[0][iterator.rank] = strides[0];
            iterator.strides[1][iterator.rank] = strides[1];
            iterator.rank++;
        }
    }
    return iterator;
}

/** Advances to the next run; false after the last. */
static inline bool dtn_iterator_next(dtn_iterator_t *iterator)
{
    for (size_t d = 0; d < iterator->rank; d++) {
        iterator->at[0] += iterator->strides[0][d];
        iterator->at[1] += iterator->strides[1][d];
        if (++iterator->index[d] < iterator->dims[d]) {
            return true;
        }
        iterator->at[0] -= iterator->dims[d] * iterator->strides[0][d];
        iterator->at[1] -= iterator->dims[d] * iterator->strides[1][d];
        iterator->index[d] = 0;
    }
    return false;
}
