/**
 * @file
 * Windows of a convolution as runs: elements that lie side by side both in the map and in a row of weights.
 */
#pragma once

#include "inner_loops.h"

/** A window on the map, and its output pixel. */
typedef struct {
    dtn_cm_window_t rows;
    dtn_cm_window_t columns;
    const int8_t *image;
    int8_t *output;
} dtn_cm_place_t;

/** Elements that lie side by side both in the map and, from `at` on, in a row of weights. */
typedef struct {
    const int8_t *input;
    size_t at;
    size_t count;
} dtn_cm_run_t;

/** The run of a window from kernel position (ky, kx) on, kx inside. */
static inline dtn_cm_run_t dtn_cm_run(const dtn_cm_group_t *group, const dtn_cm_place_t *place, int32_t ky, int32_t kx)
{
    const dtn_cm_windows_t *p = group->p;
    size_t y = (size_t)(place->rows.start + ky * p->dilation_h);
    size_t x = (size_t)(place->columns.start + kx * p->dilation_w);
    size_t width = group->joined ? (size_t)(place->columns.end - kx) : 1;
    return (dtn_cm_run_t){place->image + (y * (size_t)p->in_w + x) * (size_t)p->in_c,
                          ((size_t)ky * (size_t)p->kernel_w + (size_t)kx) * group->inputs, width * group->inputs};
}

/** The kernel column that the run after one from kx on starts at. */
static inline int32_t dtn_cm_next_run(const dtn_cm_group_t *group, const dtn_cm_place_t *place, int32_t kx)
{
    return group->joined ? place->columns.end : kx + 1;
}
