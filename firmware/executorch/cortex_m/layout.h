/* Memory layouts of a call's tensors, in the form of the operators' parameter records. `deuteron.board.operators` does
 * the same ahead of time. */
#pragma once

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

/* The sizes of a map in this memory order; the call fails for any other order. `nhwc`: its shape has this order too,
 * otherwise batches, channels, height, width. */
Map map_of(Call &call, const Value &value, bool nhwc);

/* True if both have the same shape and the same elements at the same offsets. */
bool same_layout(const Value &a, const Value &b);

/* True if the elements are in this order of dimensions, of the tensor's rank; ignores dimensions of size 1. */
bool is_in_order(const Value &value, const size_t *order);

/* True if the elements are in the order of the shape. */
bool is_contiguous(const Value &value);

/* Shared dimensions of tensors, outermost first in the output's memory, and the strides of two of them in elements.
 * `rank` of them are used; one more than a tensor's rank is for the bytes of an element. */
struct Walk {
    size_t rank;
    std::array<int32_t, kMaxRank + 1> sizes;
    std::array<int32_t, kMaxRank + 1> a;
    std::array<int32_t, kMaxRank + 1> b;
};

/* Broadcasts the operands to the output, in the fewest dimensions of at most `most`; a repeated operand has the stride
 * 0. The call fails if they do not broadcast. */
Walk broadcast(Call &call, const Value &a, const Value &b, const Value &output, int64_t most);

/* Appends a dimension: nothing for a size of 1; merges it with the last one if both strides allow it. */
void append(Walk &walk, int32_t size, int32_t a, int32_t b, int64_t most);

/* Writes the dimensions to arrays of `rank`, the outer ones as 1; the call fails if there are more. */
void write_dims(Call &call, const Walk &walk, size_t rank, int32_t *sizes, int32_t *a, int32_t *b);

} // namespace deuteron
