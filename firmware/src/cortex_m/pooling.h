/**
 * @file
 * The windows of pools on the map.
 */
#pragma once

#include "../kernels/window.h"
#include "element_loops.h"

/** The part of a map of `in_w` pixels a row, `channels` each, that two windows leave: rows and columns. */
static inline dtn_cm_pixels_t dtn_cm_pixels(const int8_t *image, dtn_window_t rows, dtn_window_t columns, int32_t in_w,
                                            int32_t channels)
{
    size_t column_step = (size_t)channels;
    size_t row_step = (size_t)in_w * column_step;
    return (dtn_cm_pixels_t){
        .pixels = image + (size_t)(rows.start + rows.first) * row_step +
                  (size_t)(columns.start + columns.first) * column_step,
        .rows = (size_t)(rows.end - rows.first),
        .columns = (size_t)(columns.end - columns.first),
        .column_step = column_step,
        .row_step = row_step,
    };
}
