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
#include "predicate_clobber_mve.h"
#include "vectors_mve.h"

/* Windows that wait for their turn: `most` of them lie in the buffer, or DTN_CM_TRIPLE lie anywhere. */
typedef struct {
    const int8_t *windows[DTN_CM_TRIPLE];
    size_t count;
    size_t most;
    int8_t *buffer;
    size_t wide;    /* bytes from a window in the buffer to the next */
    int8_t *output; /* of the first of them */
} waiting_t;

/* Copies a line of up to 16 bytes of some windows; `next` goes from the place of one to that of the next. */
#define GATHER_SHORT_LINES(next)                                                                                       \
    register size_t left __asm__("lr") = windows;                                                                      \
    __asm__ volatile("vctp.8 %[bytes]\n"                                                                               \
                     "dls lr, lr\n"                                                                                    \
                     "1:\n"                                                                                            \
                     "vpstt\n"                                                                                         \
                     "vldrbt.8 q0, [%[from]]\n"                                                                        \
                     "vstrbt.8 q0, [%[to]]" next "\n"                                                                  \
                     "add %[from], %[from], %[step]\n"                                                                 \
                     "le lr, 1b\n"                                                                                     \
                     : [to] "+&l"(to), [from] "+&r"(from), "+&r"(left)                                                 \
                     : [bytes] "r"(bytes), [step] "r"(step), [wide] "r"(wide)                                          \
                     : "q0", DTN_CM_PREDICATE "cc", "memory")

/* The same for any width, and faster for those of first layers. */
static inline void gather_short_lines(const int8_t *from, size_t step, size_t bytes, int8_t *to, size_t wide,
                                      size_t windows)
{
    if (wide == 32) {
        GATHER_SHORT_LINES(", #32");
    } else if (wide == 48) {
        GATHER_SHORT_LINES(", #48");
    } else {
        GATHER_SHORT_LINES("\nadd %[to], %[to], %[wide]");
    }
}

/* Copies so many lines of a window, `line` bytes apart there and `pitch` on the map. */
static inline void copy_lines(int8_t *to, const int8_t *from, size_t bytes, size_t line, size_t pitch, int32_t lines)
{
    if (bytes <= 16) {
        gather_short_lines(from, pitch, bytes, to, line, (size_t)lines);
        return;
    }
    for (; lines > 0; lines--) {
        dtn_cm_copy_bytes(to, from, bytes);
        to += line;
        from += pitch;
    }
}

/* Copies a window that is partly in the padding, where the group's padding value is, or whose pixels are apart. */
static void gather_parts(const dtn_cm_group_t *group, const dtn_cm_place_t *place, int8_t *to)
{
    const dtn_cm_windows_t *p = group->p;
    const size_t line = (size_t)p->kernel_w * group->inputs;
    const size_t pitch = (size_t)p->dilation_h * (size_t)p->in_w * (size_t)p->in_c;
    dtn_cm_fill_bytes(to, (int8_t)group->pad_value, group->patch);
    if (place->rows.first >= place->rows.end) {
        return;
    }
    for (int32_t kx = place->columns.first; kx < place->columns.end; kx = dtn_cm_next_run(group, place, kx)) {
        dtn_cm_run_t run = dtn_cm_run(group, place, place->rows.first, kx);
        copy_lines(to + run.at, run.input, run.count, line, pitch, place->rows.end - place->rows.first);
    }
}

/* Copies windows that are not in the padding; `from` is the first element of the first. */
static DTN_CM_ALONE void gather_windows(const dtn_cm_windows_t *p, const int8_t *from, int8_t *to, size_t wide,
                                        size_t windows)
{
    const size_t inputs = (size_t)p->in_c;
    const size_t line = (size_t)p->kernel_w * inputs;
    const size_t step = (size_t)p->stride_w * inputs;
    const size_t pitch = (size_t)p->dilation_h * (size_t)p->in_w * inputs;
    if (line > 16 || windows < (size_t)p->kernel_h) {
        for (size_t i = 0; i < windows; i++) {
            copy_lines(to + i * wide, from + i * step, line, line, pitch, p->kernel_h);
        }
        return;
    }
    for (int32_t lines = p->kernel_h; lines > 0; lines--) {
        gather_short_lines(from, step, line, to, wide, windows);
        to += line;
        from += pitch;
    }
}

/* Adds windows, `step` bytes apart. */
static inline void wait_for(waiting_t *waiting, const int8_t *first, size_t step, size_t windows)
{
    for (size_t i = 0; i < windows && waiting->count + i < DTN_CM_TRIPLE; i++) {
        waiting->windows[waiting->count + i] = first + i * step;
    }
    waiting->count += windows;
}

/* Multiplies the windows that wait by all channels. */
static void multiply(const dtn_cm_group_t *group, waiting_t *waiting)
{
    size_t pitch = (size_t)group->p->out_c;
    const bool are_many = waiting->most > DTN_CM_TRIPLE;
    dtn_cm_block_t block = {
        .weights = group->weights, .starts = group->bias, .depth = group->patch, .scale = &group->scale};
    for (; block.first < group->outputs; block.first += DTN_CM_BLOCK) {
        size_t left = group->outputs - block.first;
        int8_t *output = waiting->output + block.first;
        block.count = left < DTN_CM_BLOCK ? left : DTN_CM_BLOCK;
        if (are_many && dtn_cm_takes_short_rows(&block)) {
            dtn_cm_short_rows(&block, waiting->buffer, waiting->wide, waiting->count, output, pitch);
        } else if (are_many && dtn_cm_takes_padded_rows(&block)) {
            dtn_cm_padded_rows(&block, waiting->buffer, waiting->count, output, pitch);
        } else if (waiting->count == DTN_CM_TRIPLE && !are_many && dtn_cm_takes_three_rows(&block)) {
            dtn_cm_three_rows(&block, waiting->windows, NULL, output, pitch);
        } else {
            for (size_t i = 0; i < waiting->count; i++) {
                const int8_t *window = are_many ? waiting->buffer + i * waiting->wide : waiting->windows[i];
                dtn_cm_one_row(&block, window, output + i * pitch);
            }
        }
        block.weights += DTN_CM_ROWS_OF_BLOCK * group->patch;
        block.starts += DTN_CM_BLOCK;
    }
    waiting->output += waiting->count * pitch;
    waiting->count = 0;
}

static void all_pixels(const dtn_cm_group_t *group, waiting_t *waiting)
{
    const dtn_cm_windows_t *p = group->p;
    const size_t step = (size_t)p->stride_w * (size_t)p->in_c;
    const dtn_cm_inside_t inside = dtn_cm_inside(p);
    /* A window of one line need not be copied, unless many are to lie one behind the other. */
    const bool are_in_place = p->kernel_h == 1 && waiting->most == DTN_CM_TRIPLE;
    dtn_cm_place_t place = {.image = group->input};
    waiting->output = group->output;
    for (int32_t b = 0; b < p->batches; b++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            place.rows = dtn_cm_window(oy, p->stride_h, p->pad_h, p->kernel_h, p->dilation_h, p->in_h);
            const bool are_joined = group->joined && place.rows.end - place.rows.first == p->kernel_h;
            const int8_t *start = place.image + (size_t)place.rows.start * (size_t)p->in_w * (size_t)p->in_c;
            for (int32_t ox = 0; ox < p->out_w;) {
                int8_t *to = waiting->buffer + waiting->count * waiting->wide;
                size_t windows = 1;
                if (are_joined && ox >= inside.first && ox < inside.end) {
                    const int8_t *from = start + (size_t)(ox * p->stride_w - p->pad_w) * (size_t)p->in_c;
                    const size_t left = waiting->most - waiting->count;
                    windows = (size_t)(inside.end - ox) < left ? (size_t)(inside.end - ox) : left;
                    if (are_in_place) {
                        wait_for(waiting, from, step, windows);
                    } else {
                        gather_windows(p, from, to, waiting->wide, windows);
                        wait_for(waiting, to, waiting->wide, windows);
                    }
                } else {
                    place.columns = dtn_cm_window(ox, p->stride_w, p->pad_w, p->kernel_w, p->dilation_w, p->in_w);
                    gather_parts(group, &place, to);
                    wait_for(waiting, to, waiting->wide, 1);
                }
                if (waiting->count == waiting->most) {
                    multiply(group, waiting);
                }
                ox += (int32_t)windows;
            }
        }
        place.image += (size_t)p->in_h * (size_t)p->in_w * (size_t)p->in_c;
    }
    if (waiting->count != 0) {
        multiply(group, waiting);
    }
}

/* Windows are gathered as bytes: those of up to DTN_CM_PADDED elements, of which many are multiplied at once, on the
 * stack. */
static inline bool dtn_cm_convolve_windows(const dtn_cm_group_t *group, void *scratch, size_t bytes)
{
    if (group->patch <= DTN_CM_PADDED && group->scale.largest_shift < 0) {
        int8_t buffer[DTN_CM_PADDED_BYTES];
        const size_t wide = dtn_cm_padded_bytes(group->patch);
        all_pixels(group, &(waiting_t){.buffer = buffer, .wide = wide, .most = DTN_CM_PADDED_ROWS});
        return true;
    }
    if (bytes < DTN_CM_TRIPLE * group->patch) {
        return false;
    }
    all_pixels(group, &(waiting_t){.buffer = (int8_t *)scratch, .wide = group->patch, .most = DTN_CM_TRIPLE});
    return true;
}
