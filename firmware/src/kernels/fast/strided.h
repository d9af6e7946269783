/**
 * @file
 * Walks over strided tensors, with neighbouring dimensions joined so that the innermost run is as long as it can be.
 */
#ifndef DTN_STRIDED_H
#define DTN_STRIDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Most dimensions of a walk. */
enum { DTN_MAX_RANK = 6 };

/** Two tensors walked together: run `count` elements with steps `step` at offsets `at`, then `dtn_walk_next`. */
typedef struct {
    size_t count;
    size_t step[2];
    size_t at[2];
    size_t rank; /* outer dimensions, innermost first */
    size_t dims[DTN_MAX_RANK];
    size_t strides[2][DTN_MAX_RANK];
    size_t index[DTN_MAX_RANK];
} dtn_walk_t;

/** Starts a walk over `dims`, outermost first; negative strides work modulo the size of size_t. */
static inline dtn_walk_t dtn_walk(const int32_t *dims, const int32_t *first, const int32_t *second, size_t rank)
{
    dtn_walk_t walk = {.count = 1};
    bool started = false;
    for (size_t i = rank; i-- > 0;) {
        size_t dim = (size_t)dims[i];
        size_t strides[2] = {(size_t)first[i], (size_t)second[i]};
        if (dim == 1) {
            continue;
        }
        if (!started) {
            walk.count = dim;
            walk.step[0] = strides[0];
            walk.step[1] = strides[1];
            started = true;
        } else if (walk.rank == 0 && strides[0] == walk.step[0] * walk.count &&
                   strides[1] == walk.step[1] * walk.count) {
            walk.count *= dim;
        } else {
            walk.dims[walk.rank] = dim;
            walk.strides[0][walk.rank] = strides[0];
            walk.strides[1][walk.rank] = strides[1];
            walk.rank++;
        }
    }
    return walk;
}

/** Goes to the next run; false after the last. */
static inline bool dtn_walk_next(dtn_walk_t *walk)
{
    for (size_t d = 0; d < walk->rank; d++) {
        walk->at[0] += walk->strides[0][d];
        walk->at[1] += walk->strides[1][d];
        if (++walk->index[d] < walk->dims[d]) {
            return true;
        }
        walk->at[0] -= walk->dims[d] * walk->strides[0][d];
        walk->at[1] -= walk->dims[d] * walk->strides[1][d];
        walk->index[d] = 0;
    }
    return false;
}

#endif /* DTN_STRIDED_H */
