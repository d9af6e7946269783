/* How the tensors of a call lie in memory, as the parameter records of the operators say it. `deuteron.board.operators`
 * does the same ahead of time. */
#ifndef DEUTERON_EXECUTORCH_CORTEX_M_LAYOUT_H
#define DEUTERON_EXECUTORCH_CORTEX_M_LAYOUT_H

#include "call.h"

namespace deuteron
{

/* Sizes of a map. */
struct Map {
    int32_t batches;
    int32_t height;
    int32_t width;
    int32_t channels;
};

/* The sizes of a map that lies in this order; the call fails for any other order. `nhwc` says that the shape has this
 * order too, else it is batches, channels, height, width. */
Map map_of(Call &call, const Value &value, bool nhwc);

/* Whether both have one shape and the same elements at the same places. */
bool same_layout(const Value &a, const Value &b);

/* Whether the elements lie in this order of dimensions, as many as the tensor has; dimensions of 1 are nowhere. */
bool is_in_order(const Value &value, const size_t *order);

/* Whether the elements lie in the order of the shape. */
bool is_contiguous(const Value &value);

/* Dimensions that tensors are walked along, from the outermost in the output's memory on, and the strides of two of
 * them in elements. `rank` of them are in use; one more than tensors have is for the bytes of an element. */
struct Walk {
    size_t rank;
    std::array<int32_t, kMaxRank + 1> sizes;
    std::array<int32_t, kMaxRank + 1> a;
    std::array<int32_t, kMaxRank + 1> b;
};

/* The operands broadcast to the output, in as few dimensions of at most `most` as there can be; a repeated one has the
 * stride 0. The call fails when they do not broadcast. */
Walk broadcast(Call &call, const Value &a, const Value &b, const Value &output, int64_t most);

/* Adds a dimension to the end: none for a size of 1, to the last one where both strides allow it. */
void append(Walk &walk, int32_t size, int32_t a, int32_t b, int64_t most);

/* Writes the dimensions, the outer ones 1, to arrays of `rank`; the call fails when there are more. */
void write_dims(Call &call, const Walk &walk, size_t rank, int32_t *sizes, int32_t *a, int32_t *b);

} // namespace deuteron

#endif
