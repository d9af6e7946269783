#include <string.h>

#include "../window_runs.h"
#include "matmul_row_pairs_s8_portable.h"

static bool are_alike(dtn_cm_window_t x, dtn_cm_window_t y)
{
    return x.first == y.first && x.end == y.end;
}

/* Fills pairs with the padding. */
static void fill(int32_t pad_value, size_t count, int32_t *pairs)
{
    int32_t pair = pad_value + pad_value * (1 << DTN_CM_PAIR_BITS);
    for (size_t i = 0; i < count; i++) {
        pairs[i] = pair;
    }
}

/* Puts the elements of a window, times the factor, over the padding. */
static void add_window(const dtn_cm_group_t *group, const dtn_cm_place_t *place, int32_t factor, int32_t *pairs)
{
    int32_t offset = group->offset - group->pad_value;
    for (int32_t ky = place->rows.first; ky < place->rows.end; ky++) {
        for (int32_t kx = place->columns.first; kx < place->columns.end; kx = dtn_cm_next_run(group, place, kx)) {
            dtn_cm_run_t run = dtn_cm_run(group, place, ky, kx);
            for (size_t i = 0; i < run.count; i++) {
                pairs[run.at + i] += (run.input[i] + offset) * factor;
            }
        }
    }
}

/* The pairs of two windows. */
static void gather(const dtn_cm_group_t *group, const dtn_cm_place_t *x, const dtn_cm_place_t *y, int32_t *pairs)
{
    const dtn_cm_windows_t *p = group->p;
    bool alike = are_alike(x->rows, y->rows) && are_alike(x->columns, y->columns);
    bool whole = x->rows.end - x->rows.first == p->kernel_h && x->columns.end - x->columns.first == p->kernel_w;
    if (!alike || !whole) {
        fill(group->pad_value, group->patch, pairs);
    }
    if (!alike) {
        add_window(group, x, 1, pairs);
        add_window(group, y, 1 << DTN_CM_PAIR_BITS, pairs);
        return;
    }
    for (int32_t ky = x->rows.first; ky < x->rows.end; ky++) {
        for (int32_t kx = x->columns.first; kx < x->columns.end; kx = dtn_cm_next_run(group, x, kx)) {
            dtn_cm_run_t run = dtn_cm_run(group, x, ky, kx);
            const int8_t *other = dtn_cm_run(group, y, ky, kx).input;
            dtn_cm_make_pairs(run.input, other, group->offset, run.count, pairs + run.at);
        }
    }
}

/* All channels of two output pixels, which may be the same. */
static void two_pixels(const dtn_cm_group_t *group, const dtn_cm_place_t *x, const dtn_cm_place_t *y, int32_t *pairs)
{
    dtn_cm_pair_job_t job = {
        .weights = group->weights,
        .bias = group->bias,
        .depth = group->patch,
        .channels = group->outputs,
        .scale = &group->scale,
        .x_output = x->output,
        .y_output = y->output,
    };
    gather(group, x, y, pairs);
    dtn_cm_multiply_pairs(&job, pairs);
}

/* Two windows at a time are gathered as pairs, which need 4 bytes per element. */
bool dtn_cm_convolve(const dtn_cm_group_t *group, void *scratch, size_t bytes)
{
    if (bytes < group->patch * sizeof(int32_t) || (uintptr_t)scratch % sizeof(int32_t) != 0) {
        return false;
    }
    int32_t *pairs = (int32_t *)scratch;
    const dtn_cm_windows_t *p = group->p;
    dtn_cm_place_t place = {.image = group->input, .output = group->output};
    dtn_cm_place_t waiting;
    bool is_waiting = false;
    for (int32_t b = 0; b < p->batches; b++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            place.rows = dtn_cm_window(oy, p->stride_h, p->pad_h, p->kernel_h, p->dilation_h, p->in_h);
            for (int32_t ox = 0; ox < p->out_w; ox++) {
                place.columns = dtn_cm_window(ox, p->stride_w, p->pad_w, p->kernel_w, p->dilation_w, p->in_w);
                if (is_waiting) {
                    two_pixels(group, &waiting, &place, pairs);
                } else {
                    waiting = place;
                }
                is_waiting = !is_waiting;
                place.output += p->out_c;
            }
        }
        place.image += (size_t)p->in_h * (size_t)p->in_w * (size_t)p->in_c;
    }
    if (is_waiting) {
        two_pixels(group, &waiting, &waiting, pairs);
    }
    return true;
}
