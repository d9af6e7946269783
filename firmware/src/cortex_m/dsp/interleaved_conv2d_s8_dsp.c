#include "../convolution_groups.h"
#include "../interleaved_weights.h"
#include "interleaved_rows_dsp.h"

/* Most bytes of a row of a window that is put together on the stack. */
enum { ROW = 32 };

/* The windows of a layer, one after the other. */
typedef struct {
    const dtn_cm_group_t *group;
    size_t pixel;  /* bytes of a pixel of the map */
    size_t row;    /* elements of a row of a window */
    size_t words;  /* of such a row */
    size_t pitch;  /* bytes from a row of a window to the next on the map */
    bool in_fours; /* pixels are whole fours of elements */
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

/* Unpacks neighbouring windows with rows of so many elements, none of which is in the padding. */
static inline __attribute__((always_inline)) void unpack_rows_of(const windows_t *windows, size_t elements,
                                                                 size_t count, uint32_t *words)
{
    const int8_t *window = place_of(windows);
    const size_t next = (size_t)windows->group->p->stride_w * windows->pixel;
    const size_t pitch = windows->pitch;
    const size_t step = windows->words * DTN_DSP_THREE;
    for (; count != 0; count--) {
        const int8_t *from = window;
        uint32_t *to = words++;
        for (int32_t left = windows->group->p->kernel_h; left != 0; left--) {
            dtn_dsp_unpack_row_of_three(from, elements, to);
            from += pitch;
            to += step;
        }
        window += next;
    }
}

/* The same. Many networks start with rows of three pixels of three colours. */
__attribute__((noinline)) static void unpack_rows(const windows_t *windows, size_t count, uint32_t *words)
{
    if (windows->row == 9) {
        unpack_rows_of(windows, 9, count, words);
    } else {
        unpack_rows_of(windows, windows->row, count, words);
    }
}

/* Copies a part of a row of a window, which is short. */
static inline void copy(int8_t *to, const int8_t *from, size_t count)
{
    for (; count >= 4; count -= 4) {
        memcpy(to, from, 4);
        to += 4;
        from += 4;
    }
    for (; count != 0; count--) {
        *to++ = *from++;
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

/* True if the next windows, so many neighbours in a line, have no position in the padding. */
static inline bool are_inside(const windows_t *windows, int32_t count)
{
    return windows->rows.end - windows->rows.first == windows->group->p->kernel_h &&
           windows->ox >= windows->inside.first && windows->ox + count <= windows->inside.end;
}

/* Unpacks the next three windows. With fewer pixels in all they are one. */
static void unpack_three(windows_t *windows, bool is_one, uint32_t *words)
{
    if (!is_one && are_inside(windows, DTN_DSP_THREE)) {
        unpack_rows(windows, DTN_DSP_THREE, words);
        windows->ox += DTN_DSP_THREE - 1;
        go_on(windows);
        return;
    }
    for (size_t i = 0; i < DTN_DSP_THREE; i++) {
        if (are_inside(windows, 1)) {
            unpack_rows(windows, 1, words + i);
        } else {
            unpack_padded(windows, words + i);
        }
        if (!is_one || i == DTN_DSP_THREE - 1) {
            go_on(windows);
        }
    }
}

static windows_t windows_of(const dtn_cm_group_t *group)
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
    go_to(&windows, 0);
    return windows;
}

/* All pixels, three at a time; the last three may be in part the same as those before. */
__attribute__((noinline)) static bool by_threes(const dtn_cm_group_t *group)
{
    uint32_t words[DTN_DSP_THREE * DTN_DSP_MOST_WORDS];
    const dtn_cm_windows_t *p = group->p;
    const size_t pixels = (size_t)p->batches * (size_t)p->out_h * (size_t)p->out_w;
    const bool is_one = pixels < DTN_DSP_THREE;
    const size_t rows = is_one ? 1 : DTN_DSP_THREE;
    windows_t windows = windows_of(group);
    const dtn_dsp_channels_t channels = {
        .weights = group->weights,
        .has_s16_weights = group->has_s16_weights,
        .bias = group->bias,
        .multipliers = group->scale.multipliers,
        .shifts = group->scale.shifts,
        .words = (size_t)p->kernel_h * windows.words,
        .count = group->outputs,
        .addend = dtn_dsp_addend(&group->scale),
    };
    for (size_t at = 0; at < pixels; at += rows) {
        if (at + rows > pixels) {
            at = pixels - rows;
            go_to(&windows, at);
        }
        unpack_three(&windows, is_one, words);
        dtn_dsp_multiply_three(&channels, words, group->output + at * group->outputs, is_one ? 0 : group->outputs);
    }
    return true;
}

bool dtn_cm_convolve_interleaved(const dtn_cm_group_t *group)
{
    const dtn_cm_windows_t *p = group->p;
    const bool is_point = dtn_cm_is_point(p);
    const size_t row = (size_t)p->kernel_w * group->inputs;
    const size_t most = is_point ? DTN_DSP_MOST_OF_A_ROW : DTN_DSP_MOST_WORDS;
    if ((size_t)p->kernel_h * dtn_cm_interleaved_words(row) > most || !group->joined ||
        !dtn_dsp_is_plain(&group->scale, group->outputs)) {
        return false;
    }
    if (is_point) {
        dtn_cm_points(group, dtn_dsp_multiply_rows);
        return true;
    }
    return (row <= ROW || group->inputs % 4 == 0) && by_threes(group);
}
