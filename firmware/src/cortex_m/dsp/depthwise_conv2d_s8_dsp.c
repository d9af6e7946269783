#include "../inner_loops.h"
#include "depthwise_row_pairs_dsp.h"
#include "loops_dsp.h"
#include "scale_dsp.h"

/* Channels that are summed at once, most that are made at a pixel before the next, and most of the weights of four
 * channels that are unpacked on the stack. */
enum { BLOCK = 4, CHUNK = 16, TAPS = 64 };

/* The weights of four channels at a position of the kernel, as halves: channels 0 and 2, 1 and 3. */
typedef struct {
    uint32_t even;
    uint32_t odd;
} tap_t;

/* From a position of the kernel to the next, in elements. */
typedef struct {
    size_t input_column;
    size_t input_row;
    size_t taps_row;
} steps_t;

/* The start values of the sums of four channels, and their factors. */
typedef struct {
    uint32_t bias[BLOCK];
    dtn_cm_factor_t factors[BLOCK];
} block_t;

/* Adjacent channels, with the numbers that are the same for each pixel. */
typedef struct {
    const int8_t *input;
    int8_t *output;
    size_t count; /* of blocks */
    steps_t steps;
    bool has_nine_taps; /* each kernel, three by three */
    uint32_t offsets;   /* of the inputs: in both halves, or one number where channels share an input */
    const dtn_cm_scale_t *scale;
    int32_t addend; /* as dtn_dsp_addend */
    bool is_plain;  /* as dtn_dsp_is_plain */
    block_t blocks[CHUNK / BLOCK];
    tap_t taps[TAPS]; /* of the first block, then of the next */
} chunk_t;

/* A part of a window: elements of the map, and the weights that they meet. */
typedef struct {
    const int8_t *input;
    const tap_t *taps;
    int32_t rows;
    int32_t columns;
} part_t;

/* A sum for each channel of a block: apart, so that they stay in registers. */
typedef struct {
    uint32_t a;
    uint32_t b;
    uint32_t c;
    uint32_t d;
} sums_t;

/* Adds the products at a position of the kernel: each channel has its own input, or all have the same. */
static inline void add_tap(const int8_t *input, uint32_t offsets, const tap_t *tap, bool is_shared, sums_t *sums)
{
    uint64_t both;
    memcpy(&both, tap, sizeof both);
    uint32_t even = (uint32_t)both;
    uint32_t odd = (uint32_t)(both >> 32);
    if (is_shared) {
        uint32_t x = (uint32_t)*input + offsets;
        sums->a = dtn_dsp_lower(x, even, sums->a);
        sums->b = dtn_dsp_lower(x, odd, sums->b);
        sums->c = dtn_dsp_lower_upper(x, even, sums->c);
        sums->d = dtn_dsp_lower_upper(x, odd, sums->d);
    } else {
        uint32_t bytes = dtn_dsp_load(input);
        uint32_t x = dtn_dsp_add_even(offsets, bytes);
        uint32_t y = dtn_dsp_add_odd(offsets, bytes);
        sums->a = dtn_dsp_lower(x, even, sums->a);
        sums->c = dtn_dsp_upper(x, even, sums->c);
        sums->b = dtn_dsp_lower(y, odd, sums->b);
        sums->d = dtn_dsp_upper(y, odd, sums->d);
    }
}

/* The sums of a part of a window. Three columns are written out. */
static inline sums_t add_part(const chunk_t *chunk, part_t part, sums_t sums, bool is_shared)
{
    const uint32_t offsets = chunk->offsets;
    const size_t column = chunk->steps.input_column;
    const size_t taps_row = chunk->steps.taps_row;
    if (part.columns == 3) {
        size_t next_row = chunk->steps.input_row - 2 * column;
        for (; part.rows > 0; part.rows--) {
            add_tap(part.input, offsets, &part.taps[0], is_shared, &sums);
            part.input += column;
            add_tap(part.input, offsets, &part.taps[1], is_shared, &sums);
            part.input += column;
            add_tap(part.input, offsets, &part.taps[2], is_shared, &sums);
            part.input += next_row;
            part.taps += taps_row;
        }
        return sums;
    }
    const size_t row = chunk->steps.input_row - (size_t)part.columns * column;
    const size_t next_taps = taps_row - (size_t)part.columns;
    for (; part.rows > 0; part.rows--) {
        for (int32_t left = part.columns; left > 0; left--) {
            add_tap(part.input, offsets, part.taps, is_shared, &sums);
            part.input += column;
            part.taps++;
        }
        part.input += row;
        part.taps += next_taps;
    }
    return sums;
}

/* The outputs of four channels. */
static inline void store(const chunk_t *chunk, const dtn_cm_factor_t *factors, sums_t sums, int8_t *out)
{
    const uint32_t four[] = {sums.a, sums.b, sums.c, sums.d};
    if (chunk->is_plain) {
        dtn_dsp_store_four(four, factors, chunk->addend, out);
    } else {
        for (size_t i = 0; i < BLOCK; i++) {
            out[i] = dtn_cm_scaled(chunk->scale, &factors[i], four[i]);
        }
    }
}

/* All channels of an output pixel, for any part of a window. Separate functions have all registers. */
static inline __attribute__((always_inline)) void any_pixel(const chunk_t *chunk, const part_t *window, size_t taps,
                                                            bool is_shared, int8_t *out)
{
    part_t part = *window;
    const block_t *block = chunk->blocks;
    for (size_t left = chunk->count; left != 0; left--) {
        const uint32_t *bias = block->bias;
        sums_t sums = {bias[0], bias[1], bias[2], bias[3]};
        store(chunk, block->factors, add_part(chunk, part, sums, is_shared), out);
        part.input += is_shared ? 0 : BLOCK;
        part.taps += taps;
        out += BLOCK;
        block++;
    }
}

__attribute__((noinline)) static void of_own_inputs(const chunk_t *chunk, const part_t *window, size_t taps,
                                                    int8_t *out)
{
    any_pixel(chunk, window, taps, false, out);
}

__attribute__((noinline)) static void of_one_input(const chunk_t *chunk, const part_t *window, size_t taps, int8_t *out)
{
    any_pixel(chunk, window, taps, true, out);
}

/* For a three by three window that is inside the map. */
__attribute__((noinline)) static void of_nine_inputs(const chunk_t *chunk, const int8_t *input, int8_t *out)
{
    const block_t *block = chunk->blocks;
    const tap_t *taps = chunk->taps;
    for (size_t left = chunk->count; left != 0; left--) {
        uint32_t four[BLOCK] = {block->bias[0], block->bias[1], block->bias[2], block->bias[3]};
        dtn_dsp_add_nine(input, chunk->steps.input_column, chunk->steps.input_row, chunk->offsets, &taps->even, four);
        store(chunk, block->factors, (sums_t){four[0], four[1], four[2], four[3]}, out);
        input += BLOCK;
        taps += 9;
        out += BLOCK;
        block++;
    }
}

static void all_pixels(const dtn_cm_convolution_t *layer, const chunk_t *chunk, bool is_shared)
{
    /* A copy, which no store to the output can change. */
    const dtn_cm_windows_t p = *layer->p;
    const size_t pixel = (size_t)p.in_c;
    const size_t line = (size_t)p.in_w * pixel;
    const size_t taps = (size_t)(p.kernel_h * p.kernel_w);
    const int8_t *image = chunk->input;
    int8_t *out = chunk->output;
    for (int32_t b = 0; b < p.batches; b++) {
        for (int32_t oy = 0; oy < p.out_h; oy++) {
            dtn_cm_window_t rows = dtn_cm_window(oy, p.stride_h, p.pad_h, p.kernel_h, p.dilation_h, p.in_h);
            const int8_t *input = image + (size_t)(rows.start + rows.first * p.dilation_h) * line;
            const tap_t *weights = chunk->taps + rows.first * p.kernel_w;
            for (int32_t ox = 0; ox < p.out_w; ox++) {
                dtn_cm_window_t columns = dtn_cm_window(ox, p.stride_w, p.pad_w, p.kernel_w, p.dilation_w, p.in_w);
                part_t part = {
                    input + (size_t)(columns.start + columns.first * p.dilation_w) * pixel,
                    weights + columns.first,
                    rows.end - rows.first,
                    columns.end - columns.first,
                };
                if (is_shared) {
                    of_one_input(chunk, &part, taps, out);
                } else if (chunk->has_nine_taps && part.rows == 3 && part.columns == 3) {
                    of_nine_inputs(chunk, part.input, out);
                } else {
                    of_own_inputs(chunk, &part, taps, out);
                }
                out += p.out_c;
            }
        }
        image += (size_t)p.in_h * line;
    }
}

/* Whole blocks of channels from `channel` on. */
static void some_channels(const dtn_cm_convolution_t *layer, size_t channel, size_t input, size_t blocks,
                          bool is_shared, bool is_plain)
{
    const dtn_cm_windows_t *p = layer->p;
    const size_t column = (size_t)p->dilation_w * (size_t)p->in_c;
    chunk_t chunk = {
        .input = layer->input + input,
        .output = layer->output + channel,
        .count = blocks,
        .has_nine_taps = p->kernel_h == 3 && p->kernel_w == 3,
        .steps = {column, (size_t)p->dilation_h * (size_t)p->in_w * (size_t)p->in_c, (size_t)p->kernel_w},
        .offsets = is_shared ? (uint32_t)p->in_offset : dtn_dsp_twice(p->in_offset),
        .scale = &layer->scale,
        .addend = dtn_dsp_addend(&layer->scale),
        .is_plain = is_plain,
    };
    tap_t *tap = chunk.taps;
    for (size_t j = 0; j < BLOCK * blocks; j++) {
        chunk.blocks[j / BLOCK].bias[j % BLOCK] = dtn_cm_bias(layer, channel + j);
        chunk.blocks[j / BLOCK].factors[j % BLOCK] = dtn_cm_factor(&layer->scale, channel + j);
    }
    for (size_t j = 0; j < blocks; j++) {
        const int8_t *weights = layer->weights + channel + BLOCK * j;
        for (int32_t left = p->kernel_h * p->kernel_w; left > 0; left--) {
            uint32_t bytes = dtn_dsp_load(weights);
            *tap++ = (tap_t){dtn_dsp_even(bytes), dtn_dsp_odd(bytes)};
            weights += layer->taps_pitch;
        }
    }
    all_pixels(layer, &chunk, is_shared);
}

/* Needs no scratch memory. */
bool dtn_cm_convolve_depthwise(const dtn_cm_convolution_t *layer, void *scratch, size_t bytes)
{
    (void)scratch;
    (void)bytes;
    const dtn_cm_windows_t *p = layer->p;
    size_t taps = (size_t)(p->kernel_h * p->kernel_w);
    bool is_shared = p->out_c != p->in_c;
    size_t like = dtn_cm_channels_per_input(layer);
    if (like < BLOCK || taps > TAPS) {
        return false;
    }
    size_t most = TAPS / taps > CHUNK / BLOCK ? CHUNK / BLOCK : TAPS / taps;
    bool is_plain = dtn_dsp_is_plain(&layer->scale, layer->channels);
    if (dtn_dsp_row_pairs(layer, is_plain)) {
        return true;
    }
    for (size_t first = 0; first < layer->channels; first += like) {
        for (size_t j = 0, blocks; j < like; j += BLOCK * blocks) {
            size_t left = (like - j) / BLOCK;
            blocks = left > most ? most : left == 0 ? 1 : left;
            /* The last four may be among those before them. */
            size_t channel = first + (left == 0 ? like - BLOCK : j);
            some_channels(layer, channel, is_shared ? first / like : channel, blocks, is_shared, is_plain);
        }
    }
    return true;
}
