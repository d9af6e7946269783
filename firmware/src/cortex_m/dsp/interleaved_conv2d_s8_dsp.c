#include "../convolution_groups.h"
#include "../interleaved_weights.h"
#include "interleaved_rows_dsp.h"

/* Most bytes of a row of a window that is put together on the stack. */
enum { ROW = 144 };

/* The windows of a layer, one after the other. */
typedef struct {
    const dtn_cm_group_t *group;
    size_t pixel;   /* bytes of a pixel of the map */
    size_t row;     /* elements of a row of a window */
    size_t words;   /* of such a row */
    size_t pitch;   /* bytes from a row of a window to the next on the map */
    bool in_fours;  /* pixels are whole fours of elements */
    dtn_cm_inside_t inside;
    /* The next one. */
    const int8_t *image;
    int32_t oy;
    int32_t ox;
    dtn_cm_window_t rows;
} windows_t;

static void start_line(windows_t *windows)
{
    const dtn_cm_windows_t *p = windows->group->p;
    windows->rows = dtn_cm_window(windows->oy, p->stride_h, p->pad_h, p->kernel_h, p->dilation_h, p->in_h);
}

static void go_to(windows_t *windows, size_t at)
{
    const dtn_cm_windows_t *p = windows->group->p;
    const size_t line = at / (size_t)p->out_w;
    const size_t image = line / (size_t)p->out_h;
    windows->ox = (int32_t)(at % (size_t)p->out_w);
    windows->oy = (int32_t)(line % (size_t)p->out_h);
    windows->image = windows->group->input + image * (size_t)p->in_h * (size_t)p->in_w * windows->pixel;
    start_line(windows);
}

static inline void go_on(windows_t *windows)
{
    const dtn_cm_windows_t *p = windows->group->p;
    if (++windows->ox != p->out_w) {
        return;
    }
    windows->ox = 0;
    if (++windows->oy == p->out_h) {
        windows->oy = 0;
        windows->image += (size_t)p->in_h * (size_t)p->in_w * windows->pixel;
    }
    start_line(windows);
}

/* Where the next window starts on the map, if no position of it is in the padding. */
static const int8_t *place_of(const windows_t *windows)
{
    const dtn_cm_windows_t *p = windows->group->p;
    const int32_t start = windows->rows.start * p->in_w + windows->ox * p->stride_w - p->pad_w;
    return windows->image + (size_t)start * windows->pixel;
}

/* Unpacks a window of rows of so many elements. */
static inline __attribute__((always_inline)) void unpack_rows_of(const windows_t *windows, const int8_t *from,
                                                                 size_t elements, uint32_t *words)
{
    const size_t pitch = windows->pitch;
    const size_t step = windows->words * DTN_DSP_THREE;
    for (int32_t left = windows->group->p->kernel_h; left != 0; left--) {
        dtn_dsp_unpack_row_of_three(from, elements, words);
        from += pitch;
        words += step;
    }
}

/* Unpacks a window. Many networks start with rows of three pixels of three colours. */
__attribute__((noinline)) static void unpack_rows(const windows_t *windows, const int8_t *from, uint32_t *words)
{
    if (windows->row == 9) {
        unpack_rows_of(windows, from, 9, words);
    } else {
        unpack_rows_of(windows, from, windows->row, words);
    }
}

/* Copies a part of a row of a window, which is short. The last four bytes may be in part those before. */
static inline void copy(int8_t *to, const int8_t *from, size_t count)
{
    size_t i = 0;
    for (; i + 4 < count; i += 4) {
        memcpy(to + i, from + i, 4);
    }
    if (count >= 4) {
        memcpy(to + count - 4, from + count - 4, 4);
        return;
    }
    for (; i < count; i++) {
        to[i] = from[i];
    }
}

/* Fills a row of a window with the value of the padding. */
static inline void pad_row(const windows_t *windows, uint32_t *words)
{
    const uint32_t pad = dtn_dsp_twice(windows->group->pad_value);
    for (size_t left = windows->words; left != 0; left--) {
        *words = pad;
        words += DTN_DSP_THREE;
    }
}

/* Unpacks the next window, a part of which is in the padding. */
__attribute__((noinline)) static void unpack_padded(const windows_t *windows, uint32_t *words)
{
    int8_t row[ROW];
    const dtn_cm_windows_t *p = windows->group->p;
    const dtn_cm_window_t rows = windows->rows;
    const dtn_cm_window_t columns =
        dtn_cm_window(windows->ox, p->stride_w, p->pad_w, p->kernel_w, p->dilation_w, p->in_w);
    const size_t at = (size_t)columns.first * windows->pixel;
    const size_t count = (size_t)(columns.end - columns.first) * windows->pixel;
    const size_t first = (size_t)(rows.start + rows.first * p->dilation_h) * (size_t)p->in_w;
    const int8_t *from = windows->image + (first + (size_t)(columns.start + columns.first)) * windows->pixel;
    if (!windows->in_fours) {
        memset(row, windows->group->pad_value, windows->row);
    }
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        if (ky < rows.first || ky >= rows.end || count == 0) {
            pad_row(windows, words);
        } else if (windows->in_fours) {
            pad_row(windows, words);
            dtn_dsp_unpack_fours_of_three(from, count / 4, words + at / 2 * DTN_DSP_THREE);
            from += windows->pitch;
        } else {
            copy(row + at, from, count);
            dtn_dsp_unpack_row_of_three(row, windows->row, words);
            from += windows->pitch;
        }
        words += windows->words * DTN_DSP_THREE;
    }
}

/* The next three windows. With fewer pixels in all they are one. */
static void unpack_three(windows_t *windows, bool is_one, uint32_t *words)
{
    const dtn_cm_windows_t *p = windows->group->p;
    for (size_t i = 0; i < DTN_DSP_THREE; i++) {
        if (windows->rows.end - windows->rows.first == p->kernel_h && windows->ox >= windows->inside.first &&
            windows->ox < windows->inside.end) {
            unpack_rows(windows, place_of(windows), words + i);
        } else {
            unpack_padded(windows, words + i);
        }
        if (!is_one || i == DTN_DSP_THREE - 1) {
            go_on(windows);
        }
    }
}

/* Three pixels, which may be in part the same as those before. */
static void by_threes(windows_t *windows, const dtn_cm_product_t *product)
{
    uint32_t words[DTN_DSP_THREE_WORDS];
    const bool is_one = product->rows < DTN_DSP_THREE;
    const size_t rows = is_one ? 1 : DTN_DSP_THREE;
    for (size_t at = 0; at < product->rows; at += rows) {
        if (at + rows > product->rows) {
            at = product->rows - rows;
            go_to(windows, at);
        }
        unpack_three(windows, is_one, words);
        dtn_dsp_multiply_three(product, words, product->depth, product->output + at * product->output_pitch,
                               is_one ? 0 : product->output_pitch);
    }
}

bool dtn_cm_convolve_interleaved(const dtn_cm_group_t *group)
{
    const dtn_cm_windows_t *p = group->p;
    const size_t row = (size_t)p->kernel_w * group->inputs;
    windows_t windows = {
        .group = group,
        .pixel = group->inputs,
        .row = row,
        .words = dtn_cm_interleaved_words(row),
        .pitch = (size_t)p->dilation_h * (size_t)p->in_w * group->inputs,
        .in_fours = group->inputs % 4 == 0,
        .inside = dtn_cm_inside(p),
    };
    const size_t words = (size_t)p->kernel_h * windows.words;
    if (words > DTN_DSP_MOST_WORDS || !group->joined || (row > ROW && !windows.in_fours && !dtn_cm_is_point(p)) ||
        !dtn_dsp_is_plain(&group->scale, group->outputs)) {
        return false;
    }
    if (dtn_cm_is_point(p)) {
        dtn_cm_points(group, dtn_dsp_multiply_rows);
        return true;
    }
    const dtn_cm_product_t product = {
        .weights = group->weights,
        .bias = group->bias,
        .output = group->output,
        .rows = (size_t)p->batches * (size_t)p->out_h * (size_t)p->out_w,
        .depth = words,
        .channels = group->outputs,
        .output_pitch = group->outputs,
        .scale = group->scale,
    };
    go_to(&windows, 0);
    by_threes(&windows, &product);
    return true;
}
