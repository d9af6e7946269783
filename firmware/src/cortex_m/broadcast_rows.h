/**
 * @file
 * Walks over two operands of which the smaller repeats: rows of the smaller's length.
 */
#ifndef DTN_BROADCAST_ROWS_H
#define DTN_BROADCAST_ROWS_H

#include "cortex_m.h"

/** What a call of the inner work pays off for: shorter rows of the smaller operand are repeated to about so much. */
enum { DTN_CM_LEAST_ROW = 64 };

/** Where a walk is: a row of `length` elements, the last less. */
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

/** Starts the walk over two operands and the output that a check has passed. The walk must stay where it is. */
void dtn_cm_rows_start(dtn_cm_rows_t *rows, const dtn_tensor_t *values);

/** Elements of the row, 0 at the end. */
static inline uint32_t dtn_cm_row(const dtn_cm_rows_t *rows)
{
    return rows->left < rows->length ? rows->left : rows->length;
}

/** Goes to the next row. */
static inline void dtn_cm_rows_next(dtn_cm_rows_t *rows)
{
    uint32_t count = dtn_cm_row(rows);
    rows->left -= count;
    rows->a += rows->a_step;
    rows->b += rows->b_step;
    rows->out += count;
}

#endif /* DTN_BROADCAST_ROWS_H */
