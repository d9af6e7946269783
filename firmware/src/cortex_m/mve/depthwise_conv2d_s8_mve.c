#include <string.h>

#include "depthwise_three_taps_mve.h"
#include "depthwise_tiles_mve.h"

/* Pixels of an output for which collecting the weights costs more than it saves. */
enum { MOST_PIXELS = 9 };

/* The part of a window that is inside the map: its first input, that input's weight, and its size. */
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

/* ---- Any windows: three share weights where all of their columns lie on the map, others are made one by one ---- */

/* Sums of a window's part on the map: of four channels with inputs of their own, or of any. */
static inline int32x4_t window_sums(const chunk_t *chunk, taps_t taps, size_t column, size_t row, bool is_plain)
{
    const size_t weights_row = (size_t)chunk->p->kernel_w * LANES;
    const int32_t offset = chunk->p->in_offset;
    int32x4_t sums = chunk->bias;
    for (int32_t rows = taps.columns == 0 ? 0 : taps.rows; rows > 0; rows--) {
        const int8_t *x = taps.input;
        const int8_t *w = taps.weights;
        int32_t left = taps.columns;
        do {
            int32x4_t inputs = is_plain           ? vldrbq_s32(x)
                               : chunk->is_shared ? vdupq_n_s32(*x)
                                                  : vldrbq_z_s32(x, chunk->there);
            sums = vaddq_s32(sums, vmulq_s32(vaddq_n_s32(inputs, offset), vldrbq_s32(w)));
            x += column;
            w += LANES;
        } while (--left > 0);
        taps.input += row;
        taps.weights += weights_row;
    }
    return sums;
}

/*
 * Outputs first..end-1 of a line, one by one. Compiled for each kind of chunk: four channels with inputs of their own,
 * which are read without a predicate, and any.
 */
static inline __attribute__((always_inline)) void
single_windows(const chunk_t *chunk, const taps_t *line, int32_t first, int32_t end, int8_t *output, bool is_plain)
{
    if (first == end) {
        return;
    }
    /* Copies, which no store to the output can change. */
    const dtn_cm_windows_t p = *chunk->p;
    const dtn_cm_lanes_t lanes = chunk->lanes;
    const size_t column = column_of(&p);
    const size_t row = row_of(&p);
    const taps_t rows = *line;
    int8_t *to = output + (size_t)first * (size_t)p.out_c;
    for (int32_t ox = first; ox < end; ox++) {
        dtn_cm_window_t columns = dtn_cm_window(ox, p.stride_w, p.pad_w, p.kernel_w, p.dilation_w, p.in_w);
        taps_t taps = rows;
        taps.input += (size_t)(columns.start + columns.first * p.dilation_w) * (size_t)p.in_c;
        taps.weights += (size_t)columns.first * LANES;
        taps.columns = columns.end - columns.first;
        int32x4_t outputs = dtn_cm_scaled_lanes(window_sums(chunk, taps, column, row, is_plain), &lanes);
        if (is_plain) {
            vstrbq_s32(to, outputs);
        } else {
            vstrbq_p_s32(to, outputs, chunk->there);
        }
        to += p.out_c;
    }
}

/* Functions of their own, in which the compiler has registers for everything. */
static __attribute__((noinline)) void plain_windows(const chunk_t *chunk, const taps_t *line, int32_t first,
                                                    int32_t end, int8_t *output)
{
    single_windows(chunk, line, first, end, output, true);
}

static __attribute__((noinline)) void any_windows(const chunk_t *chunk, const taps_t *line, int32_t first, int32_t end,
                                                  int8_t *output)
{
    single_windows(chunk, line, first, end, output, false);
}

/*
 * Sums of three windows, each so far apart from the next, with one row of the kernel on the map or more. Both loops are
 * assembler, since GCC keeps no vectors in their registers around one.
 *
 *   q0 a, q1 b, q2 c      sums of the three windows
 *   q3, q4                weights of a position; inputs
 *   q5, q6                products
 *   lr                    columns that are left
 */
static inline sums_t three_windows(taps_t taps, size_t column, size_t row, size_t apart, int32x4_t starts)
{
    register int32x4_t a __asm__("q0") = starts;
    register int32x4_t b __asm__("q1") = starts;
    register int32x4_t c __asm__("q2") = starts;
    /* From a position of the third window to the next of the first, and from there to the next row. */
    const size_t next = column - 2 * apart;
    const size_t next_row = row - (size_t)taps.columns * column;
    __asm__ volatile("1:\n"
                     "dls lr, %[columns]\n"
                     "2:\n"
                     "vldrb.s32 q3, [%[w]], #4\n"
                     "vldrb.s32 q4, [%[x]]\n"
                     "add %[x], %[x], %[apart]\n"
                     "vmul.i32 q5, q4, q3\n"
                     "vldrb.s32 q4, [%[x]]\n"
                     "vadd.i32 q0, q0, q5\n"
                     "vmul.i32 q6, q4, q3\n"
                     "add %[x], %[x], %[apart]\n"
                     "vldrb.s32 q4, [%[x]]\n"
                     "vadd.i32 q1, q1, q6\n"
                     "vmul.i32 q5, q4, q3\n"
                     "add %[x], %[x], %[next]\n"
                     "vadd.i32 q2, q2, q5\n"
                     "le lr, 2b\n"
                     "add %[x], %[x], %[next_row]\n"
                     "subs %[rows], %[rows], #1\n"
                     "bne 1b\n"
                     : "+&w"(a), "+&w"(b),
                       "+&w"(c), [w] "+&l"(taps.weights), [x] "+&l"(taps.input), [rows] "+&r"(taps.rows)
                     : [columns] "r"(taps.columns), [apart] "r"(apart), [next] "r"(next), [next_row] "r"(next_row)
                     : "q3", "q4", "q5", "q6", "lr", "cc", "memory");
    return (sums_t){a, b, c};
}

/* Outputs first..end-1 of a line, three or more: all of their columns and one or more of their rows are on the map. */
static __attribute__((noinline)) void whole_windows(const chunk_t *chunk, const taps_t *line, int32_t first,
                                                    int32_t end, int8_t *output)
{
    const dtn_cm_windows_t *p = chunk->p;
    const size_t outputs = (size_t)p->out_c;
    const size_t column = column_of(p);
    const size_t row = row_of(p);
    const size_t apart = (size_t)p->stride_w * (size_t)p->in_c;
    const int32x4_t starts = starts_of(chunk, line->weights, line->rows * p->kernel_w);
    taps_t taps = *line;
    taps.columns = p->kernel_w;
    taps.input += (size_t)first * apart - (size_t)p->pad_w * (size_t)p->in_c;
    int8_t *to = output + (size_t)first * outputs;
    for (int32_t left = end - first; left > 0; left -= TRIPLE) {
        if (left < TRIPLE) {
            /* Some of the last are made once more. */
            const size_t again = (size_t)(TRIPLE - left);
            taps.input -= again * apart;
            to -= again * outputs;
        }
        store_three(&chunk->lanes, three_windows(taps, column, row, apart, starts), to, outputs);
        taps.input += TRIPLE * apart;
        to += TRIPLE * outputs;
    }
}

/* ---- All pixels, all channels ---- */

static void lines_of_windows(const chunk_t *chunk, const int8_t *input, int8_t *output)
{
    const dtn_cm_windows_t *p = chunk->p;
    const dtn_cm_inside_t inside = dtn_cm_inside(p);
    const bool is_plain = !chunk->is_shared && chunk->is_full;
    const bool has_three = is_plain && inside.end - inside.first >= TRIPLE;
    for (int32_t oy = 0; oy < p->out_h; oy++) {
        dtn_cm_window_t rows = dtn_cm_window(oy, p->stride_h, p->pad_h, p->kernel_h, p->dilation_h, p->in_h);
        size_t y = (size_t)(rows.start + rows.first * p->dilation_h);
        taps_t line = {
            .input = input + y * (size_t)p->in_w * (size_t)p->in_c,
            .weights = chunk->weights + rows.first * p->kernel_w * LANES,
            .rows = rows.end - rows.first,
        };
        if (has_three && line.rows > 0) {
            plain_windows(chunk, &line, 0, inside.first, output);
            whole_windows(chunk, &line, inside.first, inside.end, output);
            plain_windows(chunk, &line, inside.end, p->out_w, output);
        } else if (is_plain) {
            plain_windows(chunk, &line, 0, p->out_w, output);
        } else {
            any_windows(chunk, &line, 0, p->out_w, output);
        }
        output += (size_t)p->out_w * (size_t)p->out_c;
    }
}

/* Weights of the chunk's channels, tap by tap, each `channels` behind the other: the outer loop is over y, or over x.
 */
static inline void collect_weights(chunk_t *chunk, const int8_t *from, size_t channels, size_t count, bool is_y_outside)
{
    const dtn_cm_windows_t *p = chunk->p;
    int32_t outer = is_y_outside ? p->kernel_h : p->kernel_w;
    int32_t inner = is_y_outside ? p->kernel_w : p->kernel_h;
    size_t outer_step = is_y_outside ? (size_t)p->kernel_w * channels : channels;
    size_t inner_step = is_y_outside ? channels : (size_t)p->kernel_w * channels;
    int8_t *to = chunk->weights;
    for (int32_t i = 0; i < outer; i++) {
        const int8_t *tap = from + (size_t)i * outer_step;
        for (int32_t left = inner; left > 0; left--) {
            memcpy(to, tap, count);
            tap += inner_step;
            to += LANES;
        }
    }
}

/* Up to four channels from `channel` on, with inputs from `input` on; in triples along an axis, or window by window. */
static void some_channels(chunk_t *chunk, const dtn_cm_convolution_t *layer, size_t channel, size_t input, size_t count,
                          const dtn_cm_axis_t *along, const dtn_cm_axis_t axes[2])
{
    const dtn_cm_windows_t *p = layer->p;
    chunk->there = vctp32q(count);
    chunk->is_full = count == LANES;
    chunk->bias = layer->bias == NULL ? vdupq_n_s32(0) : vldrwq_z_s32(layer->bias + channel, chunk->there);
    chunk->lanes.multipliers = vldrwq_z_s32(layer->scale.multipliers + channel, chunk->there);
    chunk->lanes.shifts = vldrwq_z_s32(layer->scale.shifts + channel, chunk->there);
    const dtn_cm_axis_t *x = &axes[0];
    const dtn_cm_axis_t *y = &axes[1];
    if (count < LANES) {
        collect_weights(chunk, layer->weights + channel, layer->taps_pitch, count, true);
    } else {
        collect_weights(chunk, layer->weights + channel, layer->taps_pitch, LANES, along != y);
    }
    for (int32_t b = 0; b < p->batches; b++) {
        const int8_t *image = layer->input + input + (size_t)b * (size_t)p->in_h * y->in_step;
        int8_t *to = layer->output + channel + (size_t)b * (size_t)p->out_h * y->out_step;
        if (along == NULL) {
            lines_of_windows(chunk, image, to);
        } else {
            lines_of_triples(chunk, along, along == x ? y : x, image, to);
        }
    }
}

/* ---- Few outputs: the weights are used where they are ---- */

/* How the taps of one output pixel lie in memory. */
typedef struct {
    size_t column;
    size_t next_row;
    size_t pitch;
    size_t next_weights;
} tap_steps_t;

/* Eight channels of one pixel: their inputs less the zero point and their weights fit 16 bits. */
static inline void eight_channels(const dtn_cm_convolution_t *layer, const taps_t *taps, const tap_steps_t *steps,
                                  size_t first, dtn_cm_lanes_t *lanes, int8_t *output)
{
    const int16_t in_offset = (int16_t)layer->p->in_offset;
    const int8_t *x = taps->input + first;
    const int8_t *w = taps->weights + first;
    int32x4x2_t sums = {{vdupq_n_s32(0), vdupq_n_s32(0)}}; /* of the even and of the odd channels */
    if (layer->bias != NULL) {
        sums = vld2q_s32(layer->bias + first);
    }
    for (int32_t rows = taps->columns == 0 ? 0 : taps->rows; rows > 0; rows--) {
        for (int32_t left = taps->columns; left > 0; left--) {
            int16x8_t inputs = vaddq_n_s16(vldrbq_s16(x), in_offset);
            int16x8_t weights = vldrbq_s16(w);
            sums.val[0] = vaddq_s32(sums.val[0], vmullbq_int_s16(inputs, weights));
            sums.val[1] = vaddq_s32(sums.val[1], vmulltq_int_s16(inputs, weights));
            x += steps->column;
            w += steps->pitch;
        }
        x += steps->next_row;
        w += steps->next_weights;
    }
    const int32x4x2_t multipliers = vld2q_s32(layer->scale.multipliers + first);
    const int32x4x2_t shifts = vld2q_s32(layer->scale.shifts + first);
    int16x8_t results = vdupq_n_s16(0);
    lanes->multipliers = multipliers.val[0];
    lanes->shifts = shifts.val[0];
    results = vmovnbq_s32(results, dtn_cm_scaled_lanes(sums.val[0], lanes));
    lanes->multipliers = multipliers.val[1];
    lanes->shifts = shifts.val[1];
    results = vmovntq_s32(results, dtn_cm_scaled_lanes(sums.val[1], lanes));
    vstrbq_s16(output + first, results);
}

/* One output pixel, eight channels at a time, and the last ones four at a time. */
static __attribute__((noinline)) void one_pixel(const dtn_cm_convolution_t *layer, taps_t taps, int8_t *output)
{
    const dtn_cm_windows_t *p = layer->p;
    const int32_t in_offset = p->in_offset;
    const tap_steps_t steps = {
        .column = column_of(p),
        .next_row = row_of(p) - (size_t)taps.columns * column_of(p),
        .pitch = layer->taps_pitch,
        .next_weights = (size_t)(p->kernel_w - taps.columns) * layer->taps_pitch,
    };
    dtn_cm_lanes_t lanes = {
        .offset = layer->scale.offset, .lo = vdupq_n_s32(layer->scale.lo), .hi = vdupq_n_s32(layer->scale.hi)};
    size_t first = 0;
    for (; first + 2 * LANES <= layer->channels; first += 2 * LANES) {
        eight_channels(layer, &taps, &steps, first, &lanes, output);
    }
    for (; first < layer->channels; first += LANES) {
        const mve_pred16_t there = vctp32q((uint32_t)(layer->channels - first));
        const int8_t *x = taps.input + first;
        const int8_t *w = taps.weights + first;
        int32x4_t sums = layer->bias == NULL ? vdupq_n_s32(0) : vldrwq_z_s32(layer->bias + first, there);
        for (int32_t rows = taps.columns == 0 ? 0 : taps.rows; rows > 0; rows--) {
            for (int32_t left = taps.columns; left > 0; left--) {
                int32x4_t inputs = vaddq_n_s32(vldrbq_z_s32(x, there), in_offset);
                sums = vaddq_s32(sums, vmulq_s32(inputs, vldrbq_z_s32(w, there)));
                x += steps.column;
                w += steps.pitch;
            }
            x += steps.next_row;
            w += steps.next_weights;
        }
        lanes.multipliers = vldrwq_z_s32(layer->scale.multipliers + first, there);
        lanes.shifts = vldrwq_z_s32(layer->scale.shifts + first, there);
        vstrbq_p_s32(output + first, dtn_cm_scaled_lanes(sums, &lanes), there);
    }
}

static void few_pixels(const dtn_cm_convolution_t *layer)
{
    const dtn_cm_windows_t *p = layer->p;
    const int8_t *image = layer->input;
    int8_t *output = layer->output;
    for (int32_t b = 0; b < p->batches; b++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            dtn_cm_window_t rows = dtn_cm_window(oy, p->stride_h, p->pad_h, p->kernel_h, p->dilation_h, p->in_h);
            for (int32_t ox = 0; ox < p->out_w; ox++) {
                dtn_cm_window_t columns = dtn_cm_window(ox, p->stride_w, p->pad_w, p->kernel_w, p->dilation_w, p->in_w);
                size_t y = (size_t)(rows.start + rows.first * p->dilation_h);
                size_t x = (size_t)(columns.start + columns.first * p->dilation_w);
                taps_t taps = {
                    .input = image + (y * (size_t)p->in_w + x) * (size_t)p->in_c,
                    .weights = layer->weights + (size_t)(rows.first * p->kernel_w + columns.first) * layer->taps_pitch,
                    .rows = rows.end - rows.first,
                    .columns = columns.end - columns.first,
                };
                one_pixel(layer, taps, output);
                output += p->out_c;
            }
        }
        image += (size_t)p->in_h * (size_t)p->in_w * (size_t)p->in_c;
    }
}

bool dtn_cm_convolve_depthwise(const dtn_cm_convolution_t *layer, void *scratch, size_t bytes)
{
    (void)scratch;
    (void)bytes;
    const dtn_cm_windows_t *p = layer->p;
    const dtn_cm_scale_t *scale = &layer->scale;
    if (scale->largest_shift >= 0 || p->kernel_h * p->kernel_w > MOST_TAPS) {
        return false;
    }
    const dtn_cm_axis_t axes[2] = {DTN_CM_AXIS_X(p), DTN_CM_AXIS_Y(p)};
    bool is_shared = p->out_c != p->in_c;
    if (!is_shared && p->out_h * p->out_w <= MOST_PIXELS) {
        few_pixels(layer);
        return true;
    }
    if (takes_tiles(layer)) {
        all_tiles(layer);
        return true;
    }
    const dtn_cm_axis_t *along = is_shared ? NULL : axis_of_triples(&axes[0], &axes[1]);
    chunk_t chunk;
    chunk.p = p;
    chunk.is_shared = is_shared;
    chunk.lanes.offset = scale->offset;
    chunk.lanes.lo = vdupq_n_s32(scale->lo);
    chunk.lanes.hi = vdupq_n_s32(scale->hi);
    size_t like = dtn_cm_channels_per_input(layer);
    for (size_t first = 0; first < layer->channels; first += like) {
        for (size_t j = 0; j < like; j += LANES) {
            size_t count = like - j < LANES ? like - j : LANES;
            some_channels(&chunk, layer, first + j, is_shared ? first / like : j, count, count < LANES ? NULL : along,
                          axes);
        }
    }
    return true;
}
