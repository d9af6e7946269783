/**
 * @file
 * An iterator over the rows of two int16 operands that broadcast against each other.
 */
#pragma once

#include "broadcast_index.h"
#include "int16.h"

/** The current row: `length` elements, with steps of `a_step` and `b_step` between the operands' elements. */
typedef struct {
    const int32_t *dims;
    const int32_t *a_strides;
    const int32_t *b_strides;
    const dtn_tensor_t *values;
    int32_t index[DTN_INDEX_RANK];
    const int16_t *a;
    const int16_t *b;
    int16_t *out;
    size_t length;
    size_t a_step;
    size_t b_step;
    uint32_t left; /**< elements that are not done */
} dtn_cm_s16_rows_t;

/** True when the values a, b and out of a call are int16 and the dimensions and strides stay inside them. */
static inline bool dtn_cm_are_s16_rows(const dtn_tensor_t *values, const int32_t *dims, const int32_t *a_strides,
                                       const int32_t *b_strides)
{
    uint32_t count = dtn_cm_s16_elements(&values[2]);
    return dtn_cm_are(values, 3, DTN_TYPE_S16) && values[2].bytes % sizeof(int16_t) == 0 &&
           dtn_index_is_inside(dims, a_strides, count, dtn_cm_s16_elements(&values[0])) &&
           dtn_index_is_inside(dims, b_strides, count, dtn_cm_s16_elements(&values[1]));
}

static inline void dtn_cm_s16_row(dtn_cm_s16_rows_t *rows)
{
    rows->a = (const int16_t *)rows->values[0].data + dtn_index_offset(rows->index, rows->a_strides);
    rows->b = (const int16_t *)rows->values[1].data + dtn_index_offset(rows->index, rows->b_strides);
}

/** Returns the iterator over values that a check has passed, at its first row. */
static inline dtn_cm_s16_rows_t dtn_cm_s16_rows(const dtn_tensor_t *values, const int32_t *dims,
                                                const int32_t *a_strides, const int32_t *b_strides)
{
    enum { LAST = DTN_INDEX_RANK - 1 };
    dtn_cm_s16_rows_t rows = {
        .dims = dims,
        .a_strides = a_strides,
        .b_strides = b_strides,
        .values = values,
        .out = (int16_t *)values[2].data,
        .length = (size_t)dims[LAST],
        .a_step = (size_t)a_strides[LAST],
        .b_step = (size_t)b_strides[LAST],
        .left = dtn_cm_s16_elements(&values[2]),
    };
    dtn_cm_s16_row(&rows);
    return rows;
}

/** Advances to the next row. */
static inline void dtn_cm_s16_rows_next(dtn_cm_s16_rows_t *rows)
{
    rows->left -= (uint32_t)rows->length;
    rows->out += rows->length;
    rows->index[DTN_INDEX_RANK - 1] = (int32_t)rows->length - 1;
    dtn_index_next(rows->index, rows->dims);
    dtn_cm_s16_row(rows);
}
