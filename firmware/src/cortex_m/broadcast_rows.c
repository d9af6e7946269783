#include "broadcast_rows.h"

#include <string.h>

/* Makes rows longer where the smaller operand is short. */
static void repeat_row(dtn_cm_rows_t *rows, const int8_t **smaller, uint32_t *larger_step)
{
    uint32_t length = rows->length;
    uint32_t times = length == 0 || length == rows->left ? 1 : DTN_CM_LEAST_ROW / length;
    *larger_step = length;
    if (times < 2) {
        return;
    }
    for (uint32_t i = 0; i < times; i++) {
        memcpy(rows->repeated + i * length, *smaller, length);
    }
    *smaller = rows->repeated;
    rows->length = times * length;
    *larger_step = rows->length;
}

void dtn_cm_rows_start(dtn_cm_rows_t *rows, const dtn_tensor_t *values)
{
    uint32_t a = values[0].bytes;
    uint32_t b = values[1].bytes;
    rows->a = (const int8_t *)values[0].data;
    rows->b = (const int8_t *)values[1].data;
    rows->out = (int8_t *)values[2].data;
    rows->length = a < b ? a : b;
    rows->left = values[2].bytes;
    rows->a_step = 0;
    rows->b_step = 0;
    if (a < b) {
        repeat_row(rows, &rows->a, &rows->b_step);
    } else {
        repeat_row(rows, &rows->b, &rows->a_step);
    }
}
