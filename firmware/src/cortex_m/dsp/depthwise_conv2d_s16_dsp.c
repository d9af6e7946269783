#include "../depthwise_lines_s16.h"
#include "requantize_s16_dsp.h"

/* Channels at once. */
enum { CHANNELS = 4 };

/* Four channels. */
typedef struct {
    const dtn_cm_scale_s16_t *scale;
    dtn_dsp_factor_s16_t factors[CHANNELS];
    uint32_t weights[DTN_CM_S16_CHUNK_TAPS][2]; /* at each position of the first two, and of the others */
} chunk_t;

static void make_chunk(const dtn_cm_image_s16_t *layer, size_t first, void *channels)
{
    chunk_t *chunk = (chunk_t *)channels;
    const size_t taps = (size_t)layer->p->kernel_h * (size_t)layer->p->kernel_w;
    const int8_t *weights = layer->weights + first * taps;
    for (size_t i = 0; i < taps; i++) {
        chunk->weights[i][0] = dtn_dsp_pack_lower((uint32_t)weights[i], (uint32_t)weights[i + taps]);
        chunk->weights[i][1] = dtn_dsp_pack_lower((uint32_t)weights[i + 2 * taps], (uint32_t)weights[i + 3 * taps]);
    }
    for (size_t i = 0; i < CHANNELS; i++) {
        chunk->factors[i] = dtn_dsp_factor_s16(&layer->scale, first + i);
    }
    chunk->scale = &layer->scale;
}

/* Adds the products of four channels at a position. */
#define ADD_TAP(x)                                                                                                     \
    two = dtn_dsp_load(x);                                                                                             \
    dtn_dsp_next_two(&weights, &w, &v);                                                                                \
    a = dtn_dsp_lower(two, w, a);                                                                                      \
    b = dtn_dsp_upper(two, w, b);                                                                                      \
    two = dtn_dsp_load((x) + 2);                                                                                       \
    c = dtn_dsp_lower(two, v, c);                                                                                      \
    d = dtn_dsp_upper(two, v, d)

/* Sums of the part of a window that is on the map, which has one row or more, and so many columns, 2, 3 or any (0). */
static inline __attribute__((always_inline)) void window_sums(const int16_t *x, const uint32_t *weights,
                                                              const dtn_cm_line_s16_t *taps, int32_t columns,
                                                              uint32_t sums[CHANNELS])
{
    const size_t column = taps->column;
    const size_t next_row = taps->row - (size_t)taps->columns * column;
    const size_t next_weights = 2 * taps->left_out;
    uint32_t a = 0;
    uint32_t b = 0;
    uint32_t c = 0;
    uint32_t d = 0;
    uint32_t two;
    uint32_t w;
    uint32_t v;
    int32_t rows = taps->rows;
    do {
        if (columns == 0) {
            int32_t left = taps->columns;
            do {
                ADD_TAP(x);
                x += column;
            } while (--left > 0);
        } else {
            ADD_TAP(x);
            x += column;
            ADD_TAP(x);
            x += column;
            if (columns == 3) {
                ADD_TAP(x);
                x += column;
            }
        }
        weights += next_weights;
        x += next_row;
    } while (--rows > 0);
    sums[0] = a;
    sums[1] = b;
    sums[2] = c;
    sums[3] = d;
}

/* Outputs of one pixel. */
static inline void store(const chunk_t *chunk, const dtn_cm_scale_s16_t *scale, bool is_relu,
                         const uint32_t sums[CHANNELS], int16_t *output)
{
    for (size_t i = 0; i < CHANNELS; i++) {
        output[i] = dtn_dsp_scaled_s16(&chunk->factors[i], scale, is_relu, sums[i]);
    }
}

/* Outputs whose windows have the same positions on the map, one or more. */
static inline __attribute__((always_inline)) void all_outputs(const chunk_t *chunk, const dtn_cm_line_s16_t *taps,
                                                              const dtn_cm_axis_t *along, int32_t count,
                                                              int16_t *output, int32_t columns, bool is_relu)
{
    const dtn_cm_line_s16_t own = *taps;
    const int16_t *x = own.input;
    const uint32_t *weights = chunk->weights[own.tap];
    const size_t in_step = (size_t)along->stride * along->in_step;
    const size_t out_step = along->out_step;
    const dtn_cm_scale_s16_t scale = *chunk->scale;
    for (; count > 0; count--) {
        uint32_t sums[CHANNELS];
        window_sums(x, weights, &own, columns, sums);
        store(chunk, &scale, is_relu, sums, output);
        x += in_step;
        output += out_step;
    }
}

/* Functions of their own, in which the compiler has registers for everything. */
#define ALL_OUTPUTS(name, columns, is_relu)                                                                            \
    static __attribute__((noinline)) void name(const chunk_t *chunk, const dtn_cm_line_s16_t *taps,                    \
                                               const dtn_cm_axis_t *along, int32_t count, int16_t *output)             \
    {                                                                                                                  \
        all_outputs(chunk, taps, along, count, output, columns, is_relu);                                              \
    }
ALL_OUTPUTS(three_columns_relu, 3, true)
ALL_OUTPUTS(two_columns_relu, 2, true)
ALL_OUTPUTS(three_columns, 3, false)
ALL_OUTPUTS(any_columns, 0, false)

static __attribute__((noinline)) void no_windows(const chunk_t *chunk, const dtn_cm_axis_t *along, int32_t count,
                                                 int16_t *output)
{
    const uint32_t sums[CHANNELS] = {0};
    for (; count > 0; count--) {
        store(chunk, chunk->scale, false, sums, output);
        output += along->out_step;
    }
}

static void same_windows(const void *channels, const dtn_cm_line_s16_t *taps, const dtn_cm_axis_t *along, int32_t count,
                         int16_t *output)
{
    const chunk_t *chunk = (const chunk_t *)channels;
    const bool is_relu = dtn_dsp_is_relu_s16(chunk->scale);
    if (taps->rows == 0 || taps->columns == 0) {
        no_windows(chunk, along, count, output);
    } else if (taps->columns == 3 && is_relu) {
        three_columns_relu(chunk, taps, along, count, output);
    } else if (taps->columns == 2 && is_relu) {
        two_columns_relu(chunk, taps, along, count, output);
    } else if (taps->columns == 3) {
        three_columns(chunk, taps, along, count, output);
    } else {
        any_columns(chunk, taps, along, count, output);
    }
}

void dtn_cm_depthwise_s16(const dtn_cm_image_s16_t *layer)
{
    chunk_t chunk;
    dtn_cm_depthwise_chunks_s16(layer, CHANNELS, &chunk, make_chunk, same_windows);
}
