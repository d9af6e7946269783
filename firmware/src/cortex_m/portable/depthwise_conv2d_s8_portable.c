#include "../inner_loops.h"

/* Channels that are summed at once, and most that are made at a pixel before the next. */
enum { BLOCK = 4, CHUNK = 16 };

/* Where the input and the weight of each channel of a block lie, from those of the first channel on. */
typedef struct {
    size_t inputs[BLOCK];
    size_t weights[BLOCK];
} offsets_t;

/* Adjacent channels, with the numbers that are the same for each pixel. */
typedef struct {
    const int8_t *input;
    const int8_t *weights;
    int8_t *output;
    size_t channels;
    size_t input_block; /* from the input of a block to that of the next */
    size_t taps_pitch;
    uint32_t bias[CHUNK];
    uint32_t whole[CHUNK]; /* the bias plus the input offset's term for a window inside the map */
    dtn_cm_factor_t factors[CHUNK];
    dtn_cm_scale_t scale;
} chunk_t;

/* A part of a window: elements of the map, and the weights that they meet. */
typedef struct {
    const int8_t *input;
    const int8_t *weights;
    int32_t rows;
    int32_t columns;
} taps_t;

/* From a tap to the next, in elements. */
typedef struct {
    size_t input_column;
    size_t input_row;
    size_t weights_column;
    size_t weights_row;
} steps_t;

/* A sum for each channel of a block: apart, so that they stay in registers. */
typedef struct {
    int32_t a;
    int32_t b;
    int32_t c;
    int32_t d;
} sums_t;

/* Sums of the products of the inputs, with an offset, and the weights. */
static inline sums_t products(taps_t taps, steps_t steps, const offsets_t *at, int32_t offset)
{
    sums_t sums = {0, 0, 0, 0};
    for (; taps.rows > 0; taps.rows--) {
        const int8_t *input = taps.input;
        const int8_t *weights = taps.weights;
        for (int32_t left = taps.columns; left > 0; left--) {
            sums.a += (input[at->inputs[0]] + offset) * weights[at->weights[0]];
            sums.b += (input[at->inputs[1]] + offset) * weights[at->weights[1]];
            sums.c += (input[at->inputs[2]] + offset) * weights[at->weights[2]];
            sums.d += (input[at->inputs[3]] + offset) * weights[at->weights[3]];
            input += steps.input_column;
            weights += steps.weights_column;
        }
        taps.input += steps.input_row;
        taps.weights += steps.weights_row;
    }
    return sums;
}

/* All pixels. Called with offsets that the compiler knows, it becomes a function for those. */
static inline void all_pixels(const dtn_cm_windows_t *params, const chunk_t *given, const offsets_t *at)
{
    /* Copies, which no store to the output can change. */
    const dtn_cm_windows_t p = *params;
    const chunk_t chunk = *given;
    const steps_t steps = {
        (size_t)p.dilation_w * (size_t)p.in_c,
        (size_t)p.dilation_h * (size_t)p.in_w * (size_t)p.in_c,
        chunk.taps_pitch,
        (size_t)p.kernel_w * chunk.taps_pitch,
    };
    const int8_t *image = chunk.input;
    int8_t *out = chunk.output;
    for (int32_t b = 0; b < p.batches; b++) {
        for (int32_t oy = 0; oy < p.out_h; oy++) {
            dtn_cm_window_t rows = dtn_cm_window(oy, p.stride_h, p.pad_h, p.kernel_h, p.dilation_h, p.in_h);
            size_t y = (size_t)(rows.start + rows.first * p.dilation_h);
            const int8_t *line = image + y * (size_t)p.in_w * (size_t)p.in_c;
            const int8_t *weights = chunk.weights + (size_t)rows.first * steps.weights_row;
            for (int32_t ox = 0; ox < p.out_w; ox++) {
                dtn_cm_window_t columns = dtn_cm_window(ox, p.stride_w, p.pad_w, p.kernel_w, p.dilation_w, p.in_w);
                size_t x = (size_t)(columns.start + columns.first * p.dilation_w);
                taps_t taps = {
                    line + x * (size_t)p.in_c,
                    weights + (size_t)columns.first * steps.weights_column,
                    rows.end - rows.first,
                    columns.end - columns.first,
                };
                bool whole = taps.rows == p.kernel_h && taps.columns == p.kernel_w;
                const uint32_t *start = whole ? chunk.whole : chunk.bias;
                for (size_t j = 0; j < chunk.channels; j += BLOCK, start += BLOCK) {
                    const dtn_cm_factor_t *factors = chunk.factors + j;
                    int8_t *to = out + j;
                    sums_t sums = whole ? products(taps, steps, at, 0) : products(taps, steps, at, p.in_offset);
                    to[at->weights[0]] = dtn_cm_scaled(&chunk.scale, &factors[0], start[0] + (uint32_t)sums.a);
                    to[at->weights[1]] = dtn_cm_scaled(&chunk.scale, &factors[1], start[1] + (uint32_t)sums.b);
                    to[at->weights[2]] = dtn_cm_scaled(&chunk.scale, &factors[2], start[2] + (uint32_t)sums.c);
                    to[at->weights[3]] = dtn_cm_scaled(&chunk.scale, &factors[3], start[3] + (uint32_t)sums.d);
                    taps.input += chunk.input_block;
                    taps.weights += BLOCK;
                }
                out += p.out_c;
            }
        }
        image += (size_t)p.in_h * (size_t)p.in_w * (size_t)p.in_c;
    }
}

/* Each channel has its own input. */
static void side_by_side(const dtn_cm_windows_t *p, const chunk_t *chunk)
{
    static const offsets_t offsets = {{0, 1, 2, 3}, {0, 1, 2, 3}};
    all_pixels(p, chunk, &offsets);
}

/* All channels have the same input. */
static void of_one_input(const dtn_cm_windows_t *p, const chunk_t *chunk)
{
    static const offsets_t offsets = {{0, 0, 0, 0}, {0, 1, 2, 3}};
    all_pixels(p, chunk, &offsets);
}

/* Fewer channels than a block: the last one repeats. */
static void few_channels(const dtn_cm_windows_t *p, const chunk_t *chunk, size_t step)
{
    offsets_t offsets;
    for (size_t j = 0; j < BLOCK; j++) {
        offsets.weights[j] = j < chunk->channels ? j : chunk->channels - 1;
        offsets.inputs[j] = offsets.weights[j] * step;
    }
    all_pixels(p, chunk, &offsets);
}

/* The sum of the weights of a channel. */
static int32_t total(const dtn_cm_convolution_t *layer, size_t channel)
{
    int32_t sum = 0;
    for (int32_t tap = 0; tap < layer->p->kernel_h * layer->p->kernel_w; tap++) {
        sum += layer->weights[(size_t)tap * layer->taps_pitch + channel];
    }
    return sum;
}

/*
 * Up to CHUNK channels, whole blocks or less than one. `step` is 1 where each has its own input, 0 where they share
 * one.
 */
static void some_channels(const dtn_cm_convolution_t *layer, size_t channel, size_t input, size_t count, size_t step)
{
    chunk_t chunk = {
        .input = layer->input + input,
        .weights = layer->weights + channel,
        .output = layer->output + channel,
        .channels = count,
        .input_block = BLOCK * step,
        .taps_pitch = layer->taps_pitch,
        .scale = layer->scale,
    };
    for (size_t j = 0; j < count || j < BLOCK; j++) {
        size_t at = channel + (j < count ? j : count - 1);
        chunk.bias[j] = dtn_cm_bias(layer, at);
        chunk.whole[j] = chunk.bias[j] + (uint32_t)(total(layer, at) * layer->p->in_offset);
        chunk.factors[j] = dtn_cm_factor(&layer->scale, at);
    }
    if (count < BLOCK) {
        few_channels(layer->p, &chunk, step);
    } else if (step == 1) {
        side_by_side(layer->p, &chunk);
    } else {
        of_one_input(layer->p, &chunk);
    }
}

bool dtn_cm_convolve_depthwise(const dtn_cm_convolution_t *layer, void *scratch, size_t bytes)
{
    (void)scratch;
    (void)bytes;
    bool shared = layer->p->out_c != layer->p->in_c;
    size_t like = dtn_cm_channels_per_input(layer);
    for (size_t first = 0; first < layer->channels; first += like) {
        for (size_t j = 0, count; j < like; j += count) {
            size_t left = like - j;
            count = left > CHUNK ? CHUNK : left < BLOCK ? left : left / BLOCK * BLOCK;
            some_channels(layer, first + j, shared ? first / like : j, count, shared ? 0 : 1);
        }
    }
    return true;
}
