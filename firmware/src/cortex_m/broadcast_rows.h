/**
 * @file
 * An iterator over two operands, the smaller of which repeats, in rows of the smaller's length.
 */
#pragma once

#include "cortex_m.h"

/** Shorter rows of the smaller operand are repeated up to this length, so that fewer calls do the same work. */
enum { DTN_CM_LEAST_ROW = 64 };

/** The current row: `length` elements, fewer in the last row. */
typedef struct {
    const int8_t *a;
    const int8_t *b;
    int8_t *out;
    uint32_t length;
    uint32_t left; /**< elements that are not done */
    uint32_t a_step;
    uint32_t b_step;
    int8_t repeated[DTN_CM_LEAST_ROW];
} dtn_cm_rows_t;

/** Starts at the first row of operands and output that a check has passed. The structure must not be moved. */
void dtn_cm_rows_start(dtn_cm_rows_t *rows, const dtn_tensor_t *values);

/** Elements of the row, 0 at the end. */
static inline uint32_t dtn_cm_row(const dtn_cm_rows_t *rows)
{
    return rows->left < rows->length ? rows->left : rows->length;
}

/** Advances to the next row. */
static inline void dtn_cm_rows_next(dtn_cm_rows_t *rows)
{
    uint32_t count = dtn_cm_row(rows);
    rows->left -= count;
    rows->a += rows->a_step;
    rows->b += rows->b_step;
    rows->out += count;
}
