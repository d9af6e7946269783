#include "../check/check.h"
#include "input_packing.h"
#include "level.h"
#include "panel.h"

/* Bytes of a part of the map, as it is multiplied: of those that a window can reach beyond the map too. */
enum { PART_BYTES = 32768, PART_VALUES = PART_BYTES / (int)sizeof(dtn_value_t) };

/* Numbers that are constant during a call. Output pixels are computed `part_h` rows and `part_w` columns at a time; a
 * window is layer->runs runs of inputs, `kernel_h` rows of them. */
typedef struct {
    const dtn_conv2d_s8_params_t *p;
    const dtn_layer_t *layer;
    int32_t in_h;
    int32_t in_w;
    int32_t out_h;
    int32_t out_w;
    int32_t maps;
    int32_t part_h;
    int32_t part_w;
    size_t pitch; /* values from one row of a part to the next */
} conv_t;

/* A part of the map, for the output pixels from these on. */
typedef struct {
    int32_t oy;
    int32_t ox;
    int32_t h;
    int32_t w;
    const dtn_value_t *values;
} part_t;

/* Output pixels whose sums stay in registers together: where their windows begin, and where the results go. */
typedef struct {
    const dtn_value_t *windows[DTN_PIXELS];
    int8_t *out[DTN_PIXELS];
    int32_t count;
} pixels_t;

/* Inputs along an axis that `count` windows reach. */
static int64_t extent(int32_t count, int32_t stride, int32_t kernel, int32_t dilation)
{
    return (int64_t)(count - 1) * stride + (int64_t)(kernel - 1) * dilation + 1;
}

/* The number of values of a part, or a number above the buffer's size. */
static int64_t part_values(const conv_t *conv, int32_t h, int32_t w)
{
    const dtn_conv2d_s8_params_t *p = conv->p;
    int64_t rows = extent(h, p->stride_h, p->kernel_h, p->dilation_h);
    int64_t columns = extent(w, p->stride_w, p->kernel_w, p->dilation_w);
    /* Windows may be so large that their product leaves 64 bits. */
    bool is_small = rows <= PART_VALUES && columns <= PART_VALUES;
    return is_small ? rows * columns * p->in_c + DTN_GROUP : PART_VALUES + 1;
}

/* Finds the size of parts; false if a window does not fit the buffer. */
static bool conv_start(conv_t *conv, dtn_layer_t *layer, const dtn_call_t *call)
{
    const dtn_operand_t *operands = call->operands;
    const dtn_conv2d_s8_params_t *p = (const dtn_conv2d_s8_params_t *)(const void *)call->params;
    bool along = p->dilation_w == 1;
    *layer = (dtn_layer_t){
        .weights = (const int8_t *)operands[DTN_CONV2D_S8_WEIGHTS].data,
        .bias = (const int32_t *)(const void *)operands[DTN_CONV2D_S8_BIAS].data,
        .rows = (const dtn_requant_row_t *)(const void *)operands[DTN_CONV2D_S8_REQUANT].data,
        .row_step = p->requant_count == 1 ? 0 : 1,
        .in_zp = p->in_zp,
        .runs = (size_t)p->kernel_h * (along ? 1 : (size_t)p->kernel_w),
        .length = (size_t)p->in_c * (along ? (size_t)p->kernel_w : 1),
        .limits = {p->out_zp, p->act_min, p->act_max, true},
    };
    *conv = (conv_t){p, layer, p->in_h, p->in_w, p->out_h, p->out_w, p->batches, 1, 1, 0};
    bool points = p->kernel_h == 1 && p->kernel_w == 1 && p->stride_h == 1 && p->stride_w == 1 && p->pad_top == 0 &&
                  p->pad_left == 0 && p->in_h == p->out_h && p->in_w == p->out_w;
    int64_t pixels = (int64_t)p->batches * p->out_h * p->out_w;
    if (points && pixels <= INT32_MAX) {
        conv->in_h = conv->out_h = conv->maps = 1;
        conv->in_w = conv->out_w = (int32_t)pixels;
    }
    if (part_values(conv, 1, 1) > PART_VALUES) {
        return false;
    }
    if (part_values(conv, 1, conv->out_w) <= PART_VALUES) {
        conv->part_w = conv->out_w;
        int64_t row = part_values(conv, 2, conv->out_w) - part_values(conv, 1, conv->out_w);
        int64_t rows = 1 + (PART_VALUES - part_values(conv, 1, conv->out_w)) / row;
        conv->part_h = rows < conv->out_h ? (int32_t)rows : conv->out_h;
    } else {
        int64_t column = part_values(conv, 1, 2) - part_values(conv, 1, 1);
        int64_t columns = 1 + (PART_VALUES - part_values(conv, 1, 1)) / column;
        conv->part_w = columns < conv->out_w ? (int32_t)columns : conv->out_w;
    }
    conv->pitch = (size_t)extent(conv->part_w, p->stride_w, p->kernel_w, p->dilation_w) * (size_t)p->in_c;
    return true;
}

static void put_outside(const conv_t *conv, size_t columns, dtn_value_t *to)
{
    dtn_value_t outside = dtn_outside(conv->p->in_zp);
    for (size_t i = 0; i < columns * (size_t)conv->p->in_c; i++) {
        to[i] = outside;
    }
}

/* Writes `columns` columns of row `y` of the map from `x` on. */
static void put_row(const conv_t *conv, const int8_t *image, int64_t y, int64_t x, int64_t columns, dtn_value_t *to)
{
    const dtn_conv2d_s8_params_t *p = conv->p;
    if (y < 0 || y >= conv->in_h) {
        put_outside(conv, (size_t)columns, to);
        return;
    }
    int64_t first = x < 0 ? -x : 0;
    int64_t end = conv->in_w - x < columns ? conv->in_w - x : columns;
    size_t channels = (size_t)p->in_c;
    first = first < columns ? first : columns;
    end = end > first ? end : first;
    put_outside(conv, (size_t)first, to);
    dtn_values(image + (y * conv->in_w + x + first) * p->in_c, (size_t)(end - first) * channels, p->in_zp,
               to + (size_t)first * channels);
    put_outside(conv, (size_t)(columns - end), to + (size_t)end * channels);
}

/* Writes the inputs of a part's windows, and a group after them, because the last inputs may be read with it. */
static void put_part(const conv_t *conv, const int8_t *image, const part_t *part, dtn_value_t *to)
{
    const dtn_conv2d_s8_params_t *p = conv->p;
    int64_t y = (int64_t)part->oy * p->stride_h - p->pad_top;
    int64_t x = (int64_t)part->ox * p->stride_w - p->pad_left;
    int64_t rows = extent(part->h, p->stride_h, p->kernel_h, p->dilation_h);
    int64_t columns = extent(part->w, p->stride_w, p->kernel_w, p->dilation_w);
    for (int64_t r = 0; r < rows; r++, to += conv->pitch) {
        put_row(conv, image, y + r, x, columns, to);
    }
    memset(to - conv->pitch + (size_t)columns * (size_t)p->in_c, 0, DTN_GROUP * sizeof *to);
}

/* The sums of pixels with the channels of 1 or 2 panels, scaled and stored. Left alone, compilers unroll these loops
 * too late to see that all sums can stay in registers. */
static inline __attribute__((always_inline)) void tile(const conv_t *conv, const pixels_t *pixels, const int32_t *panel,
                                                       const int panels, const bool ties, int32_t first, int32_t n)
{
    const dtn_layer_t *layer = conv->layer;
    const size_t size = dtn_panel_size(layer);
    const size_t groups = dtn_run_groups(layer);
    const size_t columns = layer->runs / (size_t)conv->p->kernel_h;
    const int32_t *weights = panel + DTN_PANEL_HEAD;
    dtn_vector_t sums[DTN_PIXELS][2];
#pragma GCC unroll 8
    for (int i = 0; i < DTN_PIXELS; i++) {
        sums[i][0] = dtn_load(panel);
        sums[i][1] = dtn_load(panels == 2 ? panel + size : panel);
    }
    for (size_t run = 0; run < layer->runs; run++) {
        size_t row = run / columns * (size_t)conv->p->dilation_h * conv->pitch;
        size_t at = row + run % columns * (size_t)conv->p->dilation_w * (size_t)conv->p->in_c;
        for (size_t g = 0; g < groups; g++, at += DTN_GROUP, weights += DTN_LANES) {
            dtn_vector_t w0 = dtn_load(weights);
            dtn_vector_t w1 = panels == 2 ? dtn_load(weights + size) : w0;
#pragma GCC unroll 8
            for (int i = 0; i < DTN_PIXELS; i++) {
                int32_t group;
                memcpy(&group, pixels->windows[i] + at, sizeof group);
                sums[i][0] = dtn_dot(sums[i][0], dtn_splat(group), w0);
                if (panels == 2) {
                    sums[i][1] = dtn_dot(sums[i][1], dtn_splat(group), w1);
                }
            }
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < DTN_PIXELS; i++) {
        if (i < pixels->count) {
            int8_t *to = pixels->out[i] + first;
            dtn_store_s8(to, dtn_scale(sums[i][0], panel + DTN_LANES, &layer->limits, ties), &layer->limits, n);
            if (panels == 2) {
                dtn_vector_t values = dtn_scale(sums[i][1], panel + size + DTN_LANES, &layer->limits, ties);
                dtn_store_s8(to + DTN_LANES, values, &layer->limits, n - DTN_LANES);
            }
        }
    }
}

/* `channels` channels, whose panels these are, of some pixels. */
static inline __attribute__((always_inline)) void tiles(const conv_t *conv, const pixels_t *pixels,
                                                        const int32_t *panels, int32_t channels, const bool ties)
{
    int32_t c = 0;
    for (; channels - c > DTN_LANES; c += 2 * DTN_LANES) {
        tile(conv, pixels, panels, 2, ties, c, channels - c);
        panels += 2 * dtn_panel_size(conv->layer);
    }
    if (c < channels) {
        tile(conv, pixels, panels, 1, ties, c, channels - c);
    }
}

/* `channels` channels of a part, `out` being those of the first pixel of the map. */
static void run_part(const conv_t *conv, const part_t *part, const int32_t *panels, int32_t channels, int8_t *out)
{
    const dtn_conv2d_s8_params_t *p = conv->p;
    const size_t step = (size_t)p->stride_w * (size_t)p->in_c;
    const size_t out_pitch = (size_t)p->out_pitch;
    pixels_t pixels = {.count = 0};
    for (int32_t y = 0; y < part->h; y++) {
        const dtn_value_t *row = part->values + (size_t)y * (size_t)p->stride_h * conv->pitch;
        int8_t *to = out + ((size_t)(part->oy + y) * (size_t)conv->out_w + (size_t)part->ox) * out_pitch;
        for (int32_t x = 0; x < part->w; x++) {
            const dtn_value_t *window = row + (size_t)x * step;
            pixels.windows[pixels.count] = window;
            pixels.out[pixels.count++] = to + (size_t)x * out_pitch;
            if (pixels.count < DTN_PIXELS && !(y + 1 == part->h && x + 1 == part->w)) {
                continue;
            }
            for (int i = pixels.count; i < DTN_PIXELS; i++) {
                pixels.windows[i] = window;
            }
            if (conv->layer->limits.ties) {
                tiles(conv, &pixels, panels, channels, true);
            } else {
                tiles(conv, &pixels, panels, channels, false);
            }
            pixels.count = 0;
        }
    }
}

/* `channels` channels, with these panels, of all maps; in a separate stack frame. Each part begins where the one before
 * ends: a whole part further may be beyond all numbers. */
static __attribute__((noinline)) void run(const conv_t *conv, const dtn_call_t *call, const int32_t *panels,
                                          int32_t first, int32_t channels)
{
    dtn_value_t values[PART_VALUES] DTN_PANEL_ALIGNED;
    const int8_t *image = (const int8_t *)call->operands[DTN_CONV2D_S8_INPUT].data;
    int8_t *out = (int8_t *)call->operands[DTN_CONV2D_S8_OUTPUT].data + first;
    for (int32_t b = 0; b < conv->maps; b++) {
        part_t part = {.values = values};
        for (part.oy = 0; part.oy < conv->out_h; part.oy += part.h) {
            part.h = conv->out_h - part.oy < conv->part_h ? conv->out_h - part.oy : conv->part_h;
            for (part.ox = 0; part.ox < conv->out_w; part.ox += part.w) {
                part.w = conv->out_w - part.ox < conv->part_w ? conv->out_w - part.ox : conv->part_w;
                put_part(conv, image, &part, values);
                run_part(conv, &part, panels, channels, out);
            }
        }
        image += (size_t)conv->in_h * (size_t)conv->in_w * (size_t)conv->p->in_c;
        out += (size_t)conv->out_h * (size_t)conv->out_w * (size_t)conv->p->out_pitch;
    }
}

int32_t DTN_LEVEL_NAME(dtn_k_conv2d_s8)(const dtn_call_t *call, dtn_phase_t phase)
{
    conv_t conv;
    dtn_layer_t layer;
    if (phase == DTN_PHASE_CHECK || !conv_start(&conv, &layer, call) || dtn_panel_size(&layer) > DTN_PANEL_MEMORY ||
        !dtn_are_small(layer.rows, conv.p->requant_count)) {
        return dtn_k_conv2d_s8(call, phase);
    }
    int32_t panels[DTN_PANEL_MEMORY] DTN_PANEL_ALIGNED;
    int32_t block = (int32_t)(DTN_PANEL_MEMORY / dtn_panel_size(&layer)) * DTN_LANES;
    int32_t channels = conv.p->out_c;
    layer.limits.ties = dtn_may_tie(&layer, channels);
    for (int32_t first = 0; first < channels; first += block) {
        int32_t n = channels - first < block ? channels - first : block;
        dtn_panels_write(&layer, first, n, panels);
        run(&conv, call, panels, first, n);
    }
    return DTN_OK;
}

size_t DTN_LEVEL_NAME(dtn_panels_conv2d_s8)(const dtn_call_t *call, int32_t *panels)
{
    conv_t conv;
    dtn_layer_t layer;
    if (!conv_start(&conv, &layer, call) || !dtn_are_small(layer.rows, conv.p->requant_count)) {
        return 0;
    }
    if (panels != NULL) {
        dtn_panels_prepare(&layer, conv.p->out_c, panels);
    }
    return dtn_panels_size(&layer, conv.p->out_c);
}

int32_t DTN_LEVEL_NAME(dtn_paneled_conv2d_s8)(const dtn_call_t *call, dtn_phase_t phase)
{
    conv_t conv;
    dtn_layer_t layer;
    const int32_t *panels = dtn_panels_of(call, sizeof *conv.p);
    if (panels == NULL || !conv_start(&conv, &layer, call)) {
        return DTN_LEVEL_NAME(dtn_k_conv2d_s8)(call, phase);
    }
    layer.limits.ties = panels[0] != 0;
    run(&conv, call, panels + DTN_PANELS_HEAD, 0, conv.p->out_c);
    return DTN_OK;
}
