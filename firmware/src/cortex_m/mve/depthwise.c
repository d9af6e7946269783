#include "../inner.h"
#include "vectors.h"

/* Channels in the lanes, taps whose weights there is room for, and outputs side by side that share inputs. */
enum { LANES = 4, MOST_TAPS = 49, TRIPLE = 3 };

/* Four channels or fewer, with what does not change from pixel to pixel. */
typedef struct {
    const dtn_cm_windows_t *p;
    int8_t weights[MOST_TAPS * LANES]; /* of each tap, side by side */
    int32x4_t bias;
    dtn_cm_lanes_t lanes;
    mve_pred16_t there; /* which lanes have a channel */
    bool is_shared;     /* all have the same input */
} chunk_t;

/* The part of a window that lies on the map: its first input, the weight that it meets, and its size. */
typedef struct {
    const int8_t *input;
    const int8_t *weights;
    int32_t rows;
    int32_t columns;
} taps_t;

/* From a pixel to its neighbour in a window, and from a row to the next. */
static inline size_t column_of(const dtn_cm_windows_t *p)
{
    return (size_t)p->dilation_w * (size_t)p->in_c;
}

static inline size_t row_of(const dtn_cm_windows_t *p)
{
    return (size_t)p->dilation_h * (size_t)p->in_w * (size_t)p->in_c;
}

/* ---- Windows one by one ---- */

static inline int32x4_t inputs_of(const chunk_t *chunk, const int8_t *from)
{
    return chunk->is_shared ? vdupq_n_s32(*from) : vldrbq_z_s32(from, chunk->there);
}

static void one_output(const chunk_t *chunk, taps_t taps, int8_t *output)
{
    const dtn_cm_windows_t *p = chunk->p;
    const size_t column = column_of(p);
    const int32_t offset = p->in_offset;
    int32x4_t sums = chunk->bias;
    for (; taps.rows > 0; taps.rows--) {
        const int8_t *x = taps.input;
        const int8_t *w = taps.weights;
        for (int32_t left = taps.columns; left > 0; left--) {
            int32x4_t inputs = vaddq_n_s32(inputs_of(chunk, x), offset);
            sums = vaddq_s32(sums, vmulq_s32(inputs, vldrbq_s32(w)));
            x += column;
            w += LANES;
        }
        taps.input += row_of(p);
        taps.weights += (size_t)p->kernel_w * LANES;
    }
    vstrbq_p_s32(output, dtn_cm_scaled_lanes(sums, &chunk->lanes), chunk->there);
}

/* ---- Kernels of three columns that go on by one pixel: three outputs share what they read ---- */

/* What the input's offset adds to the sums of some rows of the kernel, and the bias. */
static int32x4_t starts_of(const chunk_t *chunk, const int8_t *weights, int32_t rows)
{
    int32x4_t sums = vdupq_n_s32(0);
    for (int32_t left = rows * chunk->p->kernel_w; left > 0; left--) {
        sums = vaddq_s32(sums, vldrbq_s32(weights));
        weights += LANES;
    }
    return vmlaq_n_s32(chunk->bias, sums, chunk->p->in_offset);
}

static inline int32x4_t plus_product(int32x4_t sums, int32x4_t inputs, int32x4_t weights)
{
    return vaddq_s32(sums, vmulq_s32(inputs, weights));
}

/* `x` is the second column of the first window; the one before it, or the last of the third, may lie beside the map. */
static inline __attribute__((always_inline)) void three_outputs(const chunk_t *chunk, taps_t taps, int32x4_t starts,
                                                                const int8_t *beside, bool left, bool right,
                                                                int8_t *output)
{
    const size_t column = (size_t)chunk->p->in_c;
    const size_t row = row_of(chunk->p) - 2 * column;
    const int8_t *x = taps.input;
    const int8_t *w = taps.weights;
    int32x4_t a = starts;
    int32x4_t b = starts;
    int32x4_t c = starts;
    for (int32_t rows = taps.rows; rows > 0; rows--) {
        const int32x4_t u = vldrbq_s32(w);
        const int32x4_t v = vldrbq_s32(w + LANES);
        const int32x4_t t = vldrbq_s32(w + 2 * LANES);
        int32x4_t inputs = vldrbq_s32(left ? beside : x - column);
        a = plus_product(a, inputs, u);
        inputs = vldrbq_s32(x);
        a = plus_product(a, inputs, v);
        b = plus_product(b, inputs, u);
        x += column;
        inputs = vldrbq_s32(x);
        a = plus_product(a, inputs, t);
        b = plus_product(b, inputs, v);
        c = plus_product(c, inputs, u);
        x += column;
        inputs = vldrbq_s32(x);
        b = plus_product(b, inputs, t);
        c = plus_product(c, inputs, v);
        inputs = vldrbq_s32(right ? beside : x + column);
        c = plus_product(c, inputs, t);
        x += row;
        w += 3 * LANES;
    }
    const dtn_cm_lanes_t lanes = chunk->lanes;
    vstrbq_s32(output, dtn_cm_scaled_lanes(a, &lanes));
    output += chunk->p->out_c;
    vstrbq_s32(output, dtn_cm_scaled_lanes(b, &lanes));
    output += chunk->p->out_c;
    vstrbq_s32(output, dtn_cm_scaled_lanes(c, &lanes));
}

static bool has_triples(const dtn_cm_windows_t *p)
{
    return p->kernel_w == 3 && p->stride_w == 1 && p->dilation_w == 1 && p->pad_w <= 1 && p->out_w >= TRIPLE &&
           p->in_c == p->out_c;
}

/* All outputs of a line; those of the last triple may be made twice. `taps` is for column 0 of the map. */
static void line_of_triples(const chunk_t *chunk, taps_t taps, int8_t *output)
{
    const dtn_cm_windows_t *p = chunk->p;
    const int8_t zero_point = (int8_t)-p->in_offset;
    const int8_t beside[LANES] = {zero_point, zero_point, zero_point, zero_point};
    const int32x4_t starts = starts_of(chunk, taps.weights, taps.rows);
    const size_t column = (size_t)p->in_c;
    bool is_padded = p->pad_w == 1;
    const int8_t *line = taps.input;
    for (int32_t ox = 0; ox < p->out_w; ox += TRIPLE) {
        bool is_last = ox + TRIPLE >= p->out_w;
        ox = is_last ? p->out_w - TRIPLE : ox;
        int8_t *to = output + (size_t)ox * column;
        taps.input = line + (size_t)(ox + 1 - p->pad_w) * column;
        if (!is_padded || (ox > 0 && !is_last)) {
            three_outputs(chunk, taps, starts, beside, false, false, to);
        } else if (ox > 0) {
            three_outputs(chunk, taps, starts, beside, false, true, to);
        } else if (!is_last) {
            three_outputs(chunk, taps, starts, beside, true, false, to);
        } else {
            three_outputs(chunk, taps, starts, beside, true, true, to);
        }
    }
}

/* ---- All pixels, all channels ---- */

static void line_of_windows(const chunk_t *chunk, taps_t line, int8_t *output)
{
    const dtn_cm_windows_t *p = chunk->p;
    for (int32_t ox = 0; ox < p->out_w; ox++) {
        dtn_cm_window_t columns = dtn_cm_window(ox, p->stride_w, p->pad_w, p->kernel_w, p->dilation_w, p->in_w);
        taps_t taps = line;
        taps.input += (size_t)(columns.start + columns.first * p->dilation_w) * (size_t)p->in_c;
        taps.weights += (size_t)columns.first * LANES;
        taps.columns = columns.end - columns.first;
        one_output(chunk, taps, output);
        output += p->out_c;
    }
}

static void all_pixels(const chunk_t *chunk, const int8_t *input, int8_t *output, bool is_full)
{
    const dtn_cm_windows_t *p = chunk->p;
    bool triples = is_full && has_triples(p);
    for (int32_t b = 0; b < p->batches; b++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            dtn_cm_window_t rows = dtn_cm_window(oy, p->stride_h, p->pad_h, p->kernel_h, p->dilation_h, p->in_h);
            size_t y = (size_t)(rows.start + rows.first * p->dilation_h);
            taps_t line = {
                .input = input + y * (size_t)p->in_w * (size_t)p->in_c,
                .weights = chunk->weights + (size_t)(rows.first * p->kernel_w) * LANES,
                .rows = rows.end - rows.first,
            };
            if (triples) {
                line_of_triples(chunk, line, output);
            } else {
                line_of_windows(chunk, line, output);
            }
            output += (size_t)p->out_w * (size_t)p->out_c;
        }
        input += (size_t)p->in_h * (size_t)p->in_w * (size_t)p->in_c;
    }
}

/* Up to four channels from `channel` on, with inputs from `input` on. */
static void some_channels(const dtn_cm_convolution_t *layer, size_t channel, size_t input, size_t count)
{
    const dtn_cm_windows_t *p = layer->p;
    const dtn_cm_scale_t *scale = &layer->scale;
    chunk_t chunk = {.p = p, .there = vctp32q(count), .is_shared = p->out_c != p->in_c};
    for (int32_t tap = 0; tap < p->kernel_h * p->kernel_w; tap++) {
        const int8_t *from = layer->weights + (size_t)(tap * p->out_c) + channel;
        vstrbq_s32(chunk.weights + tap * LANES, vldrbq_z_s32(from, chunk.there));
    }
    chunk.bias = layer->bias == NULL ? vdupq_n_s32(0) : vldrwq_z_s32(layer->bias + channel, chunk.there);
    chunk.lanes = (dtn_cm_lanes_t){
        .multipliers = vldrwq_z_s32(scale->multipliers + channel, chunk.there),
        .shifts = vldrwq_z_s32(scale->shifts + channel, chunk.there),
        .offset = scale->offset,
        .lo = vdupq_n_s32(scale->lo),
        .hi = vdupq_n_s32(scale->hi),
    };
    all_pixels(&chunk, layer->input + input, layer->output + channel, count == LANES);
}

bool dtn_cm_convolve_depthwise(const dtn_cm_convolution_t *layer, void *scratch, size_t bytes)
{
    (void)scratch;
    (void)bytes;
    const dtn_cm_windows_t *p = layer->p;
    if (layer->scale.largest_shift >= 0 || p->kernel_h * p->kernel_w > MOST_TAPS) {
        return false;
    }
    size_t outputs = (size_t)p->out_c;
    size_t inputs = (size_t)p->in_c;
    bool is_shared = outputs != inputs;
    /* Channels that lie side by side and are of one kind: all, or those of one input. */
    size_t like = is_shared ? outputs / inputs : outputs;
    for (size_t first = 0; first < outputs; first += like) {
        for (size_t j = 0; j < like; j += LANES) {
            size_t count = like - j < LANES ? like - j : LANES;
            some_channels(layer, first + j, is_shared ? first / like : j, count);
        }
    }
    return true;
}
