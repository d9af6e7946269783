/**
 * @file
 * Iteration over tensors of any memory order, and checks of their bounds.
 */
#pragma once

#include <string.h>

#include "deuteron/aten.h"
#include "operator.h"

/** Dimensions of an iteration; a tensor with fewer has dimensions of 1. */
enum { DTN_ITERATOR_RANK = 5 };

/** Bytes of an element of the types that these operators support, or 0. */
static inline uint32_t dtn_element_bytes(uint32_t type)
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
static inline uint32_t dtn_tensor_elements(const dtn_tensor_t *tensor)
{
    uint32_t item = dtn_element_bytes(tensor->type);
    return item == 0 ? 0 : tensor->bytes / item;
}

/** True if an iteration of `rank` dimensions of 1 or more stays within this number of elements. */
static inline bool dtn_strides_fit(const int32_t *dims, const int32_t *strides, uint32_t rank, uint32_t elements)
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
static inline bool dtn_dims_cover(const int32_t *dims, uint32_t rank, uint32_t elements)
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
    int32_t at[DTN_ITERATOR_RANK];
    uint32_t offset;
} dtn_iterator_t;

/** Moves to the next position, last dimension fastest, and from the last one to the first. */
static inline void dtn_iterator_next(dtn_iterator_t *iterator, const int32_t *dims, const int32_t *strides)
{
    for (uint32_t i = DTN_ITERATOR_RANK; i-- > 0;) {
        iterator->offset += (uint32_t)strides[i];
        iterator->at[i]++;
        if (iterator->at[i] < dims[i]) {
            return;
        }
        iterator->offset -= (uint32_t)dims[i] * (uint32_t)strides[i];
        iterator->at[i] = 0;
    }
}

/** Dimensions and strides at the start of each record with two operands. */
typedef dtn_op_mul_params_t dtn_binary_t;

/** True for a call of two operands of this type that are iterated together; `params` is its number of words. */
static inline bool dtn_binary_is_valid(const dtn_operator_call_t *call, size_t params, uint32_t type, uint32_t output)
{
    if (call->input_count != 2 || call->output_count != 1 || call->param_count != params / sizeof(uint32_t)) {
        return false;
    }
    const dtn_binary_t *p = (const dtn_binary_t *)(const void *)call->params;
    const dtn_tensor_t *values = call->values;
    return values[0].type == type && values[1].type == type && values[2].type == output &&
           dtn_dims_cover(p->dims, DTN_ITERATOR_RANK, dtn_tensor_elements(&values[2])) &&
           dtn_strides_fit(p->dims, p->a_strides, DTN_ITERATOR_RANK, dtn_tensor_elements(&values[0])) &&
           dtn_strides_fit(p->dims, p->b_strides, DTN_ITERATOR_RANK, dtn_tensor_elements(&values[1]));
}

/** The float32 with these bits. */
static inline float dtn_float_of_bits(int32_t bits)
{
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

/** Defines an operator that combines the elements of two float32 tensors by `operation`, such as `*`. */
#define DTN_BINARY_F32(name, operation)                                                                                \
    int32_t name(const dtn_operator_call_t *call, dtn_phase_t phase)                                                   \
    {                                                                                                                  \
        if (phase == DTN_PHASE_CHECK) {                                                                                \
            bool good = dtn_binary_is_valid(call, sizeof(name##_params_t), DTN_TYPE_F32, DTN_TYPE_F32);                \
            return good ? DTN_OK : DTN_REASON_OPERATOR;                                                                \
        }                                                                                                              \
        const dtn_binary_t *p = (const dtn_binary_t *)(const void *)call->params;                                      \
        const float *a = (const float *)call->values[0].data;                                                          \
        const float *b = (const float *)call->values[1].data;                                                          \
        float *output = (float *)call->values[2].data;                                                                 \
        dtn_iterator_t at_a = {{0}, 0};                                                                                \
        dtn_iterator_t at_b = {{0}, 0};                                                                                \
        for (uint32_t left = dtn_tensor_elements(&call->values[2]); left != 0; left--) {                               \
            *output++ = a[at_a.offset] operation b[at_b.offset];                                                       \
            dtn_iterator_next(&at_a, p->dims, p->a_strides);                                                           \
            dtn_iterator_next(&at_b, p->dims, p->b_strides);                                                           \
        }                                                                                                              \
        return DTN_OK;                                                                                                 \
    }
