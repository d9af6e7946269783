/**
 * @file
 * The windows of a convolution, gathered and multiplied by all channels of a group.
 *
 * The file that includes it defines DTN_CM_ROWS_OF_BLOCK, the rows of weights of a block of channels, and may rename
 * the functions that multiply: see conv2d_s4_mve.c.
 */
#pragma once

#include "../window_runs.h"
#include "matmul_blocks_mve.h"
#include "vectors_mve.h"

/* Windows of up to DTN_CM_SHORT elements that are gathered before they are multiplied. */
enum { BATCH = 12 };

/* Windows that wait for their turn, and where the output of the first of them is. */
typedef struct {
    const int8_t *windows[DTN_CM_TRIPLE];
    size_t count;
    int8_t *output;
} waiting_t;

/* Copies a kernel row of a window; positions in the padding get the group's padding value. */
static void gather_row(const dtn_cm_group_t *group, const dtn_cm_place_t *place, int32_t ky, int8_t *to)
{
    const dtn_cm_windows_t *p = group->p;
    int8_t pad_value = (int8_t)group->pad_value;
    if (ky < place->rows.first || ky >= place->rows.end) {
        dtn_cm_fill_bytes(to, pad_value, (size_t)p->kernel_w * group->inputs);
        return;
    }
    int32_t first = place->columns.first;
    int32_t end = place->columns.end;
    dtn_cm_fill_bytes(to, pad_value, (size_t)first * group->inputs);
    size_t row = (size_t)ky * (size_t)p->kernel_w * group->inputs;
    for (int32_t kx = first; kx < end; kx = dtn_cm_next_run(group, place, kx)) {
        dtn_cm_run_t run = dtn_cm_run(group, place, ky, kx);
        dtn_cm_copy_bytes(to + (run.at - row), run.input, run.count);
    }
    dtn_cm_fill_bytes(to + (size_t)end * group->inputs, pad_value, (size_t)(p->kernel_w - end) * group->inputs);
}

/* Copies a window that is partly in the padding, or whose pixels are apart. */
static void gather_parts(const dtn_cm_group_t *group, const dtn_cm_place_t *place, int8_t *to)
{
    const dtn_cm_windows_t *p = group->p;
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        gather_row(group, place, ky, to);
        to += (size_t)p->kernel_w * group->inputs;
    }
}

/* Copies lines, `pitch` apart, to one behind the other. */
static inline void gather_lines(const int8_t *from, size_t pitch, size_t bytes, int32_t lines, int8_t *to)
{
    for (; lines > 0; lines--) {
        dtn_cm_copy_bytes(to, from, bytes);
        to += bytes;
        from += pitch;
    }
}

/* Multiplies the windows that wait by all channels. */
static void multiply(const dtn_cm_group_t *group, waiting_t *waiting)
{
    size_t pitch = (size_t)group->p->out_c;
    dtn_cm_block_t block = {
        .weights = group->weights, .starts = group->bias, .depth = group->patch, .scale = &group->scale};
    for (; block.first < group->outputs; block.first += DTN_CM_BLOCK) {
        size_t left = group->outputs - block.first;
        int8_t *output = waiting->output + block.first;
        block.count = left < DTN_CM_BLOCK ? left : DTN_CM_BLOCK;
        if (dtn_cm_takes_short_rows(&block)) {
            dtn_cm_short_rows(&block, waiting->windows[0], group->patch, waiting->count, output, pitch);
        } else if (waiting->count == DTN_CM_TRIPLE && dtn_cm_takes_three_rows(&block)) {
            dtn_cm_three_rows(&block, waiting->windows, NULL, output, pitch);
        } else {
            for (size_t i = 0; i < waiting->count; i++) {
                /* Short windows are contiguous, for any number of them. */
                const int8_t *window = i < DTN_CM_TRIPLE ? waiting->windows[i] : waiting->windows[0] + i * group->patch;
                dtn_cm_one_row(&block, window, output + i * pitch);
            }
        }
        block.weights += DTN_CM_ROWS_OF_BLOCK * group->patch;
        block.starts += DTN_CM_BLOCK;
    }
    waiting->output += waiting->count * pitch;
    waiting->count = 0;
}

static void all_pixels(const dtn_cm_group_t *group, int8_t *buffer, size_t most)
{
    const dtn_cm_windows_t *p = group->p;
    const size_t patch = group->patch;
    const size_t inputs = (size_t)p->in_c;
    const size_t line = (size_t)p->kernel_w * inputs;
    const size_t pitch = (size_t)p->dilation_h * (size_t)p->in_w * inputs;
    const int32_t lines = p->kernel_h;
    const dtn_cm_inside_t inside = dtn_cm_inside(p);
    /* A window of one line need not be copied, unless many are to lie one behind the other. */
    const bool are_in_place = lines == 1 && most == DTN_CM_TRIPLE;
    dtn_cm_place_t place = {.image = group->input};
    waiting_t waiting = {.count = 0, .output = group->output};
    for (int32_t b = 0; b < p->batches; b++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            place.rows = dtn_cm_window(oy, p->stride_h, p->pad_h, p->kernel_h, p->dilation_h, p->in_h);
            const bool are_joined = group->joined && place.rows.end - place.rows.first == lines;
            const int8_t *start = place.image + (size_t)place.rows.start * (size_t)p->in_w * inputs;
            for (int32_t ox = 0; ox < p->out_w; ox++) {
                int8_t *to = buffer + waiting.count * patch;
                const int8_t *window = to;
                if (are_joined && ox >= inside.first && ox < inside.end) {
                    const int8_t *from = start + (size_t)(ox * p->stride_w - p->pad_w) * inputs;
                    if (are_in_place) {
                        window = from;
                    } else {
                        gather_lines(from, pitch, line, lines, to);
                    }
                } else {
                    place.columns = dtn_cm_window(ox, p->stride_w, p->pad_w, p->kernel_w, p->dilation_w, p->in_w);
                    gather_parts(group, &place, to);
                }
                if (waiting.count < DTN_CM_TRIPLE) {
                    waiting.windows[waiting.count] = window;
                }
                waiting.count++;
                if (waiting.count == most) {
                    multiply(group, &waiting);
                }
            }
        }
        place.image += (size_t)p->in_h * (size_t)p->in_w * inputs;
    }
    if (waiting.count != 0) {
        multiply(group, &waiting);
    }
}

/* Windows are gathered as bytes: short ones, of which many are multiplied at once, on the stack. */
static inline bool dtn_cm_convolve_windows(const dtn_cm_group_t *group, void *scratch, size_t bytes)
{
    if (group->patch <= DTN_CM_SHORT && group->scale.largest_shift < 0) {
        int8_t buffer[BATCH * DTN_CM_SHORT];
        all_pixels(group, buffer, BATCH);
        return true;
    }
    if (bytes < DTN_CM_TRIPLE * group->patch) {
        return false;
    }
    all_pixels(group, (int8_t *)scratch, DTN_CM_TRIPLE);
    return true;
}
