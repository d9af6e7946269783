/*
 * Convolutions by F(4x4, 3x3), whose arithmetic is in winograd.h: two tiles at a time.
 *
 *   1. Columns: of each column of 6 inputs, B' d, for up to 16 input channels at a time. A word has two channels, as
 *      halves. Tiles side by side share two columns.
 *   2. Rows: of each row of these, (B' d) B. They are stored in the order in which they are multiplied: by position,
 *      then by input channels, and for both tiles.
 *   3. Products of all positions by up to three channels (winograd_products_dsp.h).
 *   4. Outputs: the columns of the sums by A', then its rows by A, and the channel's factor.
 *
 * Weights that are transformed in each run have the columns G g first, then the rows (G g) G', a word of two input
 * channels at a time.
 *
 * Halves have |B' d B| <= 100 * 128 and keep their low 16 bits otherwise; weights are any.
 */
#include "scale_dsp.h"
#include "winograd_outputs_dsp.h"
#include "winograd_products_dsp.h"
#include "winograd_rows_dsp.h"

/* Fours of input channels whose columns are in memory at once. */
enum { CHUNK = 4 };

/* Largest right shift with which an offset, shifted left, fits 32 bits besides a sum. */
enum { MOST_SHIFT = 22 };

typedef struct {
    const dtn_cm_winograd_t *layer;
    size_t fours;       /* of input channels */
    uint32_t *tiles;    /* two, transformed */
    uint32_t *columns;  /* of both, with one transform */
    uint32_t *sums;     /* of a group of channels */
    const int8_t *zero; /* a position in the padding */
} work_t;

static inline void store_column(dtn_dsp_six_t column, uint32_t *to)
{
    for (size_t i = 0; i < DTN_CM_TILE_INPUTS; i++) {
        to[i * DTN_DSP_TILE_COLUMNS] = column.at[i];
    }
}

/* A column of four input channels, whose bytes are four words. */
static inline void transform_column(dtn_dsp_six_t bytes, uint32_t *to)
{
    dtn_dsp_six_t even;
    dtn_dsp_six_t odd;
    for (size_t i = 0; i < DTN_CM_TILE_INPUTS; i++) {
        even.at[i] = dtn_dsp_even(bytes.at[i]);
        odd.at[i] = dtn_dsp_odd(bytes.at[i]);
    }
    store_column(dtn_dsp_transformed(even), to);
    store_column(dtn_dsp_transformed(odd), to + DTN_DSP_TILE_WORD);
}

/* A column of `fours` times four input channels, and of `rest` more. */
static void columns_of(const int8_t *const rows[DTN_CM_TILE_INPUTS], size_t fours, size_t rest, uint32_t *to)
{
    const int8_t *a = rows[0];
    const int8_t *b = rows[1];
    const int8_t *c = rows[2];
    const int8_t *d = rows[3];
    const int8_t *e = rows[4];
    const int8_t *f = rows[5];
    for (; fours != 0; fours--) {
        const dtn_dsp_six_t bytes = {
            {dtn_dsp_load(a), dtn_dsp_load(b), dtn_dsp_load(c), dtn_dsp_load(d), dtn_dsp_load(e), dtn_dsp_load(f)}};
        transform_column(bytes, to);
        a += 4;
        b += 4;
        c += 4;
        d += 4;
        e += 4;
        f += 4;
        to += 2 * DTN_DSP_TILE_WORD;
    }
    if (rest != 0) {
        const int8_t *const last[DTN_CM_TILE_INPUTS] = {a, b, c, d, e, f};
        dtn_dsp_six_t bytes = {{0}};
        for (size_t i = 0; i < DTN_CM_TILE_INPUTS; i++) {
            for (size_t j = rest; j != 0; j--) {
                bytes.at[i] = bytes.at[i] << 8 | (uint8_t)last[i][j - 1];
            }
        }
        transform_column(bytes, to);
    }
}

/* Transforms some columns of inputs from the tile's first on, for input channels from `first` on. */
static void transform_columns(const work_t *work, const dtn_cm_tile_t *tile, size_t count, size_t first, size_t fours,
                              size_t rest, uint32_t *to)
{
    const dtn_cm_windows_t *p = work->layer->p;
    const size_t in_c = (size_t)p->in_c;
    const size_t line = (size_t)p->in_w * in_c;
    const int8_t *image = work->layer->input + (size_t)tile->b * (size_t)p->in_h * line + first;
    const int32_t y = tile->oy - p->pad_h;
    int32_t x = tile->ox - p->pad_w;
    for (; count != 0; count--, x++, to++) {
        const bool is_column = x >= 0 && x < p->in_w;
        const int8_t *rows[DTN_CM_TILE_INPUTS];
        for (int32_t i = 0; i < DTN_CM_TILE_INPUTS; i++) {
            const bool is_inside = is_column && y + i >= 0 && y + i < p->in_h;
            rows[i] = is_inside ? image + (size_t)(y + i) * line + (size_t)x * in_c : work->zero;
        }
        columns_of(rows, fours, rest, to);
    }
}

/* Both tiles, by up to 16 input channels at a time. */
static void transform_tiles(const work_t *work, const dtn_cm_tile_t *one, const dtn_cm_tile_t *other)
{
    const bool are_adjacent = other->b == one->b && other->oy == one->oy && other->ox == one->ox + DTN_CM_TILE;
    const size_t second = are_adjacent ? DTN_CM_TILE : DTN_CM_TILE_INPUTS;
    const size_t in_c = (size_t)work->layer->p->in_c;
    for (size_t four = 0; four < work->fours; four += CHUNK) {
        const size_t left = in_c - 4 * four;
        const size_t channels = left < 4 * CHUNK ? left : 4 * CHUNK;
        const size_t fours = channels / 4;
        const size_t rest = channels % 4;
        transform_columns(work, one, second + (are_adjacent ? DTN_CM_TILE_INPUTS : 0), 4 * four, fours, rest,
                          work->columns);
        if (!are_adjacent) {
            transform_columns(work, other, DTN_CM_TILE_INPUTS, 4 * four, fours, rest, work->columns + second);
        }
        dtn_dsp_tile_rows(work->columns, second * sizeof(uint32_t), 2 * dtn_cm_winograd_fours(channels),
                          work->tiles + 4 * four, 4 * work->fours * sizeof(uint32_t));
    }
}

/* A channel of a tile, and whether its factor and limits are usual. */
typedef struct {
    dtn_dsp_tile_channel_t numbers;
    bool is_plain;
} channel_t;

static channel_t channel_of(const dtn_cm_winograd_t *layer, size_t channel)
{
    const dtn_cm_scale_t *scale = &layer->scale;
    const int32_t shift = -scale->shifts[channel];
    const bool is_plain = shift >= 1 && shift <= MOST_SHIFT && dtn_dsp_has_plain_limits(scale);
    const uint32_t addend = is_plain ? (UINT32_C(1) << (shift - 1)) + ((uint32_t)scale->offset << shift) : 0;
    const uint32_t start = DTN_CM_TILE_PRODUCTS * (uint32_t)layer->kernel_sums[channel];
    return (channel_t){{start, scale->multipliers[channel], (int32_t)addend, shift}, is_plain};
}

/* A tile's outputs for all factors and limits. */
static void any_outputs(const dtn_cm_scale_t *scale, const dtn_dsp_tile_channel_t *channel, const uint32_t *sums,
                        int8_t out[DTN_CM_TILE * DTN_CM_TILE])
{
    const dtn_cm_factor_t factor = {channel->multiplier, (uint32_t)channel->shift - 2U};
    uint32_t z[DTN_CM_TILE][DTN_CM_TILE_INPUTS];
    dtn_cm_tile_columns(sums, DTN_DSP_TILE_SUMS, channel->start, z);
    for (size_t i = 0; i < DTN_CM_TILE; i++) {
        const dtn_cm_tile_sums_t y = dtn_cm_tile_sums(z[i]);
        for (size_t j = 0; j < DTN_CM_TILE; j++) {
            *out++ = dtn_cm_scaled(scale, &factor, (uint32_t)dtn_cm_tile_sum(y.at[j], i, j, 0));
        }
    }
}

/* A tile on the output's map: its first channel, and the rows and columns that are inside. */
typedef struct {
    int8_t *output;
    size_t rows;
    size_t columns;
} place_t;

static place_t place_of(const dtn_cm_winograd_t *layer, dtn_cm_tile_t tile)
{
    const size_t rows = (size_t)(layer->p->out_h - tile.oy);
    const size_t columns = (size_t)(layer->p->out_w - tile.ox);
    return (place_t){dtn_cm_tile_output(layer, tile, 0), rows < DTN_CM_TILE ? rows : DTN_CM_TILE,
                     columns < DTN_CM_TILE ? columns : DTN_CM_TILE};
}

/* A channel of a tile that is not whole, or whose factor or limits are not usual. */
static void some_outputs(const dtn_cm_winograd_t *layer, const channel_t *channel, const uint32_t *sums,
                         const place_t *place, size_t index)
{
    const size_t pixel = (size_t)layer->p->out_c;
    const size_t row = (size_t)layer->p->out_w * pixel;
    int8_t whole[DTN_CM_TILE * DTN_CM_TILE];
    if (channel->is_plain) {
        dtn_dsp_tile_outputs(sums, &channel->numbers, whole, 1, DTN_CM_TILE);
    } else {
        any_outputs(&layer->scale, &channel->numbers, sums, whole);
    }
    int8_t *out = place->output + index;
    for (size_t i = 0; i < place->rows; i++) {
        for (size_t j = 0; j < place->columns; j++) {
            out[i * row + j * pixel] = whole[DTN_CM_TILE * i + j];
        }
    }
}

static inline void tile_outputs(const dtn_cm_winograd_t *layer, const channel_t *channel, const uint32_t *sums,
                                const place_t *place, size_t index)
{
    const size_t pixel = (size_t)layer->p->out_c;
    if (channel->is_plain && place->rows == DTN_CM_TILE && place->columns == DTN_CM_TILE) {
        dtn_dsp_tile_outputs(sums, &channel->numbers, place->output + index, pixel, (size_t)layer->p->out_w * pixel);
    } else {
        some_outputs(layer, channel, sums, place, index);
    }
}

/* All channels of two tiles; the second may be missing. */
static void two_tiles(const work_t *work, dtn_cm_tile_t one, dtn_cm_tile_t other)
{
    const dtn_cm_winograd_t *layer = work->layer;
    const bool is_single = other.b == layer->p->batches;
    const size_t outputs = (size_t)layer->p->out_c;
    const uint32_t *weights = (const uint32_t *)(const void *)layer->weights;
    const place_t places[2] = {place_of(layer, one), place_of(layer, is_single ? one : other)};
    if (layer->tiles != DTN_CM_TILES_READ) {
        transform_tiles(work, &one, is_single ? &one : &other);
    }
    for (size_t first = layer->first; first < layer->end;) {
        const size_t count = dtn_cm_winograd_group(first, outputs, layer->most);
        /* A pointer to either function would leave the stack's bound unknown. */
        if (count == 3) {
            dtn_dsp_three_channels(work->tiles, weights, work->sums, work->fours);
        } else {
            dtn_dsp_two_channels(work->tiles, weights, work->sums, work->fours);
        }
        weights += 2 * DTN_CM_TILE_PRODUCTS * count * work->fours;
        for (size_t i = 0; i < count && first < outputs; i++, first++) {
            const channel_t channel = channel_of(layer, first);
            tile_outputs(layer, &channel, work->sums + i, &places[0], first);
            if (!is_single) {
                tile_outputs(layer, &channel, work->sums + count + i, &places[1], first);
            }
        }
    }
}

void dtn_cm_convolve_winograd(const dtn_cm_winograd_t *layer, void *scratch)
{
    const dtn_cm_windows_t *p = layer->p;
    const size_t in_c = (size_t)p->in_c;
    work_t work = {.layer = layer, .fours = dtn_cm_winograd_fours(in_c), .columns = (uint32_t *)scratch};
    work.sums = work.columns + 2 * DTN_DSP_TILE_WORD * (work.fours < CHUNK ? work.fours : CHUNK);
    uint32_t *zero = work.sums + DTN_DSP_TILE_SUMS * DTN_CM_TILE_PRODUCTS;
    memset(zero, -p->in_offset, in_c);
    work.zero = (const int8_t *)zero;
    work.tiles = zero + work.fours;
    const size_t pair = layer->tiles == DTN_CM_TILES_DROPPED ? 0 : dtn_cm_winograd_pair(in_c) / sizeof(uint32_t);
    dtn_cm_tile_t one = {0, 0, 0};
    while (one.b < p->batches) {
        const dtn_cm_tile_t other = dtn_cm_next_tile(p, one);
        two_tiles(&work, one, other);
        work.tiles += pair;
        one = dtn_cm_next_tile(p, other);
    }
}

/* G times three numbers. */
static inline dtn_dsp_six_t kernel_of(uint32_t a, uint32_t b, uint32_t c)
{
    dtn_dsp_six_t t = {.at = {[0] = a, [5] = c}};
    const uint32_t even = dtn_dsp_add_halves(a, c);
    t.at[1] = dtn_dsp_add_halves(even, b);
    t.at[2] = dtn_dsp_subtract_halves(even, b);
    const uint32_t far = dtn_dsp_add_halves(a, dtn_dsp_four_times(c));
    b = dtn_dsp_add_halves(b, b);
    t.at[3] = dtn_dsp_add_halves(far, b);
    t.at[4] = dtn_dsp_subtract_halves(far, b);
    return t;
}

/* Two input channels: a word of each of the 3x3 weights. Results are `pitch` words from a position to the next. */
static void transform_kernel(const uint32_t g[9], size_t pitch, uint32_t *to)
{
    dtn_dsp_six_t columns[3];
    for (size_t j = 0; j < 3; j++) {
        columns[j] = kernel_of(g[j], g[3 + j], g[6 + j]);
    }
    for (size_t i = 0; i < DTN_CM_TILE_INPUTS; i++) {
        const dtn_dsp_six_t row = kernel_of(columns[0].at[i], columns[1].at[i], columns[2].at[i]);
        for (size_t j = 0; j < DTN_CM_TILE_INPUTS; j += 3, to += 3 * pitch) {
            to[0] = row.at[j];
            to[pitch] = row.at[j + 1];
            to[2 * pitch] = row.at[j + 2];
        }
    }
}

/* Four input channels: the bytes of each of the 3x3 weights. */
static void transform_four(const uint32_t bytes[9], size_t count, size_t pitch, uint32_t *to)
{
    uint32_t halves[9];
    for (size_t i = 0; i < 9; i++) {
        halves[i] = dtn_dsp_even(bytes[i]);
    }
    transform_kernel(halves, pitch, to);
    for (size_t i = 0; i < 9; i++) {
        halves[i] = dtn_dsp_odd(bytes[i]);
    }
    transform_kernel(halves, pitch, to + count);
}

void dtn_cm_transform_winograd(const int8_t *kernels, size_t inputs, size_t outputs, size_t count, int16_t *weights)
{
    const size_t pitch = 2 * count * dtn_cm_winograd_fours(inputs);
    for (size_t index = 0; index < count; index++) {
        uint32_t *to = (uint32_t *)(void *)weights + index;
        const int8_t *kernel = kernels + (index < outputs ? index : outputs - 1) * 9 * inputs;
        uint32_t bytes[9];
        size_t k = 0;
        for (; k + 4 <= inputs; k += 4, to += 2 * count) {
            const int8_t *from = kernel + k;
            for (size_t i = 0; i < 9; i++, from += inputs) {
                bytes[i] = dtn_dsp_load(from);
            }
            transform_four(bytes, count, pitch, to);
        }
        if (k < inputs) {
            for (size_t i = 0; i < 9; i++) {
                bytes[i] = 0;
                for (size_t j = inputs; j > k; j--) {
                    bytes[i] = bytes[i] << 8 | (uint8_t)kernel[i * inputs + j - 1];
                }
            }
            transform_four(bytes, count, pitch, to);
        }
    }
}
