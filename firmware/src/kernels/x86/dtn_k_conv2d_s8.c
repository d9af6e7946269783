#include "../check/check.h"
#include "../window.h"
#include "level.h"
#include "panel.h"
#include "values.h"

/* What stays the same through a call. */
typedef struct {
    const dtn_conv2d_s8_params_t *p;
    const int8_t *image;
    const int8_t *image_end;
    dtn_value_t *windows;
    const dtn_value_t *windows_end;
    size_t patch; /* elements of a window */
    size_t pitch; /* elements from one window to the next in the workspace: patch rounded up */
    size_t groups;
    dtn_limits_t limits;
} conv_t;

/* An output pixel. */
typedef struct {
    const int8_t *image;
    int32_t oy;
    int32_t ox;
    dtn_window_t rows;
} place_t;

static dtn_window_t window_rows(const dtn_conv2d_s8_params_t *p, int32_t oy)
{
    return dtn_window(oy, p->stride_h, p->pad_top, p->kernel_h, p->dilation_h, p->in_h);
}

static void step(const conv_t *conv, place_t *place)
{
    const dtn_conv2d_s8_params_t *p = conv->p;
    if (++place->ox < p->out_w) {
        return;
    }
    place->ox = 0;
    if (++place->oy == p->out_h) {
        place->oy = 0;
        place->image += (size_t)p->in_h * (size_t)p->in_w * (size_t)p->in_c;
    }
    place->rows = window_rows(p, place->oy);
}

/* Windows are written from start to end, so that what is written beyond a part of one, as long as that is in the
 * workspace, comes before what belongs there. */
static bool has_room(const conv_t *conv, const dtn_value_t *to, size_t count)
{
    return (size_t)(conv->windows_end - to) >= (count + 15) / 16 * 16;
}

static void put(const conv_t *conv, const int8_t *from, size_t count, dtn_value_t *to)
{
    if ((size_t)(conv->image_end - from) >= (count + 15) / 16 * 16 && has_room(conv, to, count)) {
        dtn_values_over(from, count, conv->p->in_zp, to);
    } else {
        dtn_values(from, count, conv->p->in_zp, to);
    }
}

static void put_outside(const conv_t *conv, size_t count, dtn_value_t *to)
{
    if (has_room(conv, to, count)) {
        for (size_t i = 0; i < count; i += 16) {
            dtn_outside16(conv->p->in_zp, to + i);
        }
        return;
    }
    for (size_t i = 0; i < count; i++) {
        to[i] = dtn_outside(conv->p->in_zp);
    }
}

/* One row of a window on `line` of the map. */
static void gather_row(const conv_t *conv, const int8_t *line, dtn_window_t columns, dtn_value_t *window)
{
    const dtn_conv2d_s8_params_t *p = conv->p;
    size_t channels = (size_t)p->in_c;
    int32_t step = p->dilation_w == 1 ? columns.end - columns.first : 1;
    put_outside(conv, (size_t)columns.first * channels, window);
    for (int32_t kx = columns.first; kx < columns.end; kx += step) {
        int64_t x = columns.start + (int64_t)kx * p->dilation_w;
        put(conv, line + (size_t)x * channels, (size_t)step * channels, window + (size_t)kx * channels);
    }
    put_outside(conv, (size_t)(p->kernel_w - columns.end) * channels, window + (size_t)columns.end * channels);
}

/* The window of an output pixel. */
static void gather(const conv_t *conv, const place_t *place, dtn_value_t *window)
{
    const dtn_conv2d_s8_params_t *p = conv->p;
    dtn_window_t columns = dtn_window(place->ox, p->stride_w, p->pad_left, p->kernel_w, p->dilation_w, p->in_w);
    size_t row = (size_t)p->kernel_w * (size_t)p->in_c;
    bool whole = columns.end - columns.first == p->kernel_w && p->dilation_w == 1;
    for (int32_t ky = 0; ky < p->kernel_h; ky++, window += row) {
        int64_t y = place->rows.start + (int64_t)ky * p->dilation_h;
        if (ky < place->rows.first || ky >= place->rows.end || columns.first >= columns.end) {
            put_outside(conv, row, window);
        } else if (whole) {
            put(conv, place->image + (y * p->in_w + columns.start) * p->in_c, row, window);
        } else {
            gather_row(conv, place->image + y * p->in_w * p->in_c, columns, window);
        }
    }
}

/* Scales sums of a panel's channels and stores the first `n`. */
static inline void store(dtn_vector_t sums, const int32_t *panel, const dtn_limits_t *limits, int32_t n, int8_t *out)
{
    dtn_store_s8(out, dtn_scale(sums, panel + DTN_LANES), limits, n);
}

/* The sums of DTN_PIXELS windows with the channels of 1 or 2 panels, scaled; the first `pixels` are stored. Left alone,
 * compilers unroll these loops too late to see that all sums can stay in registers. */
static inline __attribute__((always_inline)) void tile(const conv_t *conv, const int32_t *panel,
                                                       const dtn_value_t *windows, int32_t pixels, const int panels,
                                                       int32_t channels, int8_t *out)
{
    const size_t pitch = conv->pitch;
    const size_t groups = conv->groups;
    const int32_t *next = panel + dtn_panel_size(groups);
    dtn_vector_t sums[DTN_PIXELS][2];
#pragma GCC unroll 8
    for (int i = 0; i < DTN_PIXELS; i++) {
        sums[i][0] = dtn_load(panel);
        sums[i][1] = dtn_load(panels == 2 ? next : panel);
    }
    for (size_t g = 0; g < groups; g++) {
        dtn_vector_t w0 = dtn_load(panel + DTN_PANEL_HEAD + g * DTN_LANES);
        dtn_vector_t w1 = panels == 2 ? dtn_load(next + DTN_PANEL_HEAD + g * DTN_LANES) : w0;
#pragma GCC unroll 8
        for (int i = 0; i < DTN_PIXELS; i++) {
            int32_t group;
            memcpy(&group, windows + (size_t)i * pitch + g * DTN_GROUP, sizeof group);
            sums[i][0] = dtn_dot(sums[i][0], dtn_splat(group), w0);
            if (panels == 2) {
                sums[i][1] = dtn_dot(sums[i][1], dtn_splat(group), w1);
            }
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < DTN_PIXELS; i++) {
        if (i < pixels) {
            int8_t *to = out + (size_t)i * (size_t)conv->p->out_pitch;
            store(sums[i][0], panel, &conv->limits, channels, to);
            if (panels == 2) {
                store(sums[i][1], next, &conv->limits, channels - DTN_LANES, to + DTN_LANES);
            }
        }
    }
}

/* `channels` channels, whose panels these are, of the pixels whose windows stand in the workspace. */
static void finish(const conv_t *conv, const int32_t *panels, int32_t channels, int32_t pixels, int8_t *out)
{
    for (int32_t i = 0; i < pixels; i += DTN_PIXELS) {
        const dtn_value_t *windows = conv->windows + (size_t)i * conv->pitch;
        int8_t *to = out + (size_t)i * (size_t)conv->p->out_pitch;
        const int32_t *panel = panels;
        int32_t left = channels;
        for (; left > DTN_LANES; left -= 2 * DTN_LANES) {
            tile(conv, panel, windows, pixels - i, 2, left, to);
            panel += 2 * dtn_panel_size(conv->groups);
            to += 2 * DTN_LANES;
        }
        if (left > 0) {
            tile(conv, panel, windows, pixels - i, 1, left, to);
        }
    }
}

/* `channels` channels, whose panels these are, of the whole map. */
static void run(const conv_t *conv, const int32_t *panels, int32_t channels, int8_t *out)
{
    const dtn_conv2d_s8_params_t *p = conv->p;
    bool points = conv->patch == (size_t)p->in_c && p->stride_h == 1 && p->stride_w == 1 && p->in_h == p->out_h &&
                  p->in_w == p->out_w;
    size_t left = (size_t)p->batches * (size_t)p->out_h * (size_t)p->out_w;
    const int8_t *point = conv->image;
    place_t place = {conv->image, 0, 0, window_rows(p, 0)};
    while (left > 0) {
        int32_t pixels = left < DTN_WINDOWS ? (int32_t)left : DTN_WINDOWS;
        if (points && conv->pitch == conv->patch) {
            dtn_values(point, (size_t)pixels * conv->patch, p->in_zp, conv->windows);
            point += (size_t)pixels * conv->patch;
        } else if (points) {
            for (int32_t i = 0; i < pixels; i++, point += conv->patch) {
                put(conv, point, conv->patch, conv->windows + (size_t)i * conv->pitch);
            }
        } else {
            for (int32_t i = 0; i < pixels; i++) {
                gather(conv, &place, conv->windows + (size_t)i * conv->pitch);
                step(conv, &place);
            }
        }
        finish(conv, panels, channels, pixels, out);
        out += (size_t)pixels * (size_t)p->out_pitch;
        left -= (size_t)pixels;
    }
}

int32_t DTN_LEVEL_NAME(dtn_k_conv2d_s8)(const dtn_call_t *call, dtn_phase_t phase)
{
    const dtn_operand_t *operands = call->operands;
    const dtn_conv2d_s8_params_t *p = (const dtn_conv2d_s8_params_t *)(const void *)call->params;
    const dtn_operand_t *input = &operands[DTN_CONV2D_S8_INPUT];
    size_t patch = (size_t)p->kernel_h * (size_t)p->kernel_w * (size_t)p->in_c;
    conv_t conv = {
        .p = p,
        .image = (const int8_t *)input->data,
        .windows = (dtn_value_t *)(void *)operands[DTN_CONV2D_S8_WORKSPACE].data,
        .patch = patch,
        .pitch = (patch + 15) / 16 * 16,
        .groups = (patch + DTN_GROUP - 1) / DTN_GROUP,
        .limits = {p->out_zp, p->act_min, p->act_max},
    };
    dtn_layer_t layer = {
        .weights = (const int8_t *)operands[DTN_CONV2D_S8_WEIGHTS].data,
        .bias = (const int32_t *)(const void *)operands[DTN_CONV2D_S8_BIAS].data,
        .rows = (const dtn_requant_row_t *)(const void *)operands[DTN_CONV2D_S8_REQUANT].data,
        .row_step = p->requant_count == 1 ? 0 : 1,
    };
    int32_t memory[DTN_PANEL_MEMORY];
    size_t size = dtn_panel_size(conv.groups);
    if (phase == DTN_PHASE_CHECK || size > DTN_PANEL_MEMORY || !dtn_are_small(layer.rows, p->requant_count)) {
        return dtn_k_conv2d_s8(call, phase);
    }
    conv.image_end = conv.image + input->bytes;
    conv.windows_end = conv.windows + DTN_WINDOWS * conv.pitch;
    int32_t block = (int32_t)(DTN_PANEL_MEMORY / size) * DTN_LANES;
    for (int32_t first = 0; first < p->out_c; first += block) {
        int32_t channels = p->out_c - first < block ? p->out_c - first : block;
        for (int32_t c = 0; c < channels; c += DTN_LANES) {
            int32_t n = channels - c < DTN_LANES ? channels - c : DTN_LANES;
            dtn_panel_write(&layer, first + c, n, patch, p->in_zp, memory + (size_t)(c / DTN_LANES) * size);
        }
        run(&conv, memory, channels, (int8_t *)operands[DTN_CONV2D_S8_OUTPUT].data + first);
    }
    return DTN_OK;
}
