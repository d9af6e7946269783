/**
 * @file
 * Iteration over tensors of any memory order, and checks of their bounds.
 */
#ifndef DTN_WALK_H
#define DTN_WALK_H

#include <string.h>

#include "deuteron/aten.h"
#include "operator.h"

/** Dimensions of an iteration; a tensor with fewer has dimensions of 1. */
enum { DTN_WALK_RANK = 5 };

/** Bytes of an element of the types that these operators support, or 0. */
static inline uint32_t dtn_walk_item(uint32_t type)
{
    switch (type) {
    case DTN_TYPE_F32:
        return sizeof(float);
    case DTN_TYPE_S8:
    case DTN_TYPE_BOOL:
        return 1;
    default:
        return 0;
    }
}

/** The number of elements of a tensor of such a type. */
static inline uint32_t dtn_walk_elements(const dtn_tensor_t *tensor)
{
    uint32_t item = dtn_walk_item(tensor->type);
    return item == 0 ? 0 : tensor->bytes / item;
}

/** True if an iteration of `rank` dimensions of 1 or more stays within this number of elements. */
static inline bool dtn_walk_fits(const int32_t *dims, const int32_t *strides, uint32_t rank, uint32_t elements)
{
    uint64_t last = 0;
    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] < 1 || strides[i] < 0) {
            return false;
        }
        last += (uint64_t)(dims[i] - 1) * (uint64_t)strides[i];
        if (last >= elements) {
            return false;
        }
    }
    return true;
}

/** True if the dimensions, each 1 or more, have this number of elements. */
static inline bool dtn_walk_covers(const int32_t *dims, uint32_t rank, uint32_t elements)
{
    uint64_t product = 1;
    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] < 1) {
            return false;
        }
        product *= (uint64_t)dims[i];
        if (product > elements) {
            return false;
        }
    }
    return product == elements;
}

/** A position of an iteration: its offset from the start of a tensor, in elements. */
typedef struct {
    int32_t at[DTN_WALK_RANK];
    uint32_t offset;
} dtn_walk_t;

/** Moves to the next position, last dimension fastest, and from the last one to the first. */
static inline void dtn_walk_next(dtn_walk_t *walk, const int32_t *dims, const int32_t *strides)
{
    for (uint32_t i = DTN_WALK_RANK; i-- > 0;) {
        walk->offset += (uint32_t)strides[i];
        walk->at[i]++;
        if (walk->at[i] < dims[i]) {
            return;
        }
        walk->offset -= (uint32_t)dims[i] * (uint32_t)strides[i];
        walk->at[i] = 0;
    }
}

/** Dimensions and strides at the start of each record with two operands. */
typedef dtn_op_mul_params_t dtn_pair_t;

/** True for a call of two operands of this type that are iterated together; `params` is its number of words. */
static inline bool dtn_pair_is_valid(const dtn_operator_call_t *call, size_t params, uint32_t type, uint32_t output)
{
    if (call->input_count != 2 || call->output_count != 1 || call->param_count != params / sizeof(uint32_t)) {
        return false;
    }
    const dtn_pair_t *p = (const dtn_pair_t *)(const void *)call->params;
    const dtn_tensor_t *values = call->values;
    return values[0].type == type && values[1].type == type && values[2].type == output &&
           dtn_walk_covers(p->dims, DTN_WALK_RANK, dtn_walk_elements(&values[2])) &&
           dtn_walk_fits(p->dims, p->a_strides, DTN_WALK_RANK, dtn_walk_elements(&values[0])) &&
           dtn_walk_fits(p->dims, p->b_strides, DTN_WALK_RANK, dtn_walk_elements(&values[1]));
}

/** The float32 with these bits. */
static inline float dtn_walk_float(int32_t bits)
{
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

#endif /* DTN_WALK_H */
