#include <string.h>

#include "two_rows_s16_dsp.h"

/* Channels at once; pixels that have partial sums at once; least elements of a row of the kernel. */
enum { TRIPLE = DTN_DSP_TRIPLE, STRIP = 32, LEAST_RUN = 16 };

/* Sums of |weights| up to this make sums that fit 32 bits with any int16 inputs. */
enum { MOST_WEIGHTS = 65535 };

typedef dtn_cm_convolution_s16_params_t params_t;

/* Some rows of the kernel for three channels. */
typedef struct {
    dtn_dsp_block_s16_t block;
    size_t words; /* of a row of the kernel */
    int32_t first;
    int32_t end;
} part_t;

/* Pixels that follow each other, and their sums. */
typedef struct {
    int32_t first;
    int32_t count;
    uint32_t sums[STRIP][TRIPLE];
} strip_t;

static size_t run_of(const params_t *p)
{
    return (size_t)p->kernel_w * (size_t)p->in_c;
}

static size_t patch_of(const params_t *p)
{
    return (size_t)p->kernel_h * run_of(p);
}

/* True if the weights of each channel are so small that its sums fit 32 bits. */
static bool are_small(const int8_t *weights, size_t patch, int32_t channels)
{
    for (; patch > DTN_CM_S16_SHORT && channels > 0; channels--) {
        uint32_t sum = 0;
        size_t left = patch;
        for (; left >= 4; left -= 4) {
            /* With 128 added, |weight| is the distance from 128. */
            sum = dtn_dsp_add_distances(dtn_dsp_load(weights) ^ UINT32_C(0x80808080), UINT32_C(0x80808080), sum);
            weights += 4;
        }
        for (; left > 0; left--) {
            int32_t weight = *weights++;
            sum += (uint32_t)(weight < 0 ? -weight : weight);
        }
        if (sum > MOST_WEIGHTS) {
            return false;
        }
    }
    return true;
}

/* Unpacks rows of the kernel from `part->first` on, as many as fit. */
static void unpack_part(const dtn_cm_image_s16_t *image, size_t channel, part_t *part)
{
    const params_t *p = image->p;
    const size_t run = run_of(p);
    const int32_t rows = (int32_t)(DTN_DSP_MOST_UNPACKED / run);
    part->words = run / 2 * TRIPLE;
    part->end = part->first + rows < p->kernel_h ? part->first + rows : p->kernel_h;
    const size_t count = (size_t)(part->end - part->first) * run;
    const int8_t *weights = image->weights + channel * patch_of(p) + (size_t)part->first * run;
    for (size_t i = 0; i < TRIPLE; i++) {
        dtn_dsp_unpack_s16(weights + i * patch_of(p), count, part->block.weights + i);
    }
}

/* The same rows of two windows, `apart`, which may be 0. */
typedef struct {
    const int16_t *input;
    size_t apart;
    size_t next_row;
    const uint32_t *weights;
    size_t next_weights;
    size_t run;
    int32_t rows;
} windows_t;

static __attribute__((noinline)) void add_windows(const windows_t *windows, uint32_t sums[2 * TRIPLE])
{
    const windows_t own = *windows;
    const int16_t *x = own.input;
    const uint32_t *weights = own.weights;
    for (int32_t left = own.rows; left > 0; left--) {
        dtn_dsp_add_two_rows_s16(x, x + own.apart, weights, own.run, false, sums);
        x += own.next_row;
        weights += own.next_weights;
    }
}

static bool is_whole(const params_t *p, int32_t ox)
{
    int32_t start = ox * p->stride_w - p->pad_w;
    return start >= 0 && start + p->kernel_w <= p->in_w;
}

/* Adds the products of some rows of the kernel to the sums of a strip. */
static void add_part(const dtn_cm_image_s16_t *image, const part_t *part, strip_t *strip)
{
    const params_t *p = image->p;
    const size_t inputs = (size_t)p->in_c;
    const size_t line = (size_t)p->in_w * inputs;
    int32_t oy = strip->first / p->out_w;
    int32_t ox = strip->first % p->out_w;
    dtn_cm_window_t rows = dtn_cm_window(oy, p->stride_h, p->pad_h, p->kernel_h, p->dilation_h, p->in_h);
    for (int32_t at = 0; at < strip->count;) {
        const dtn_cm_window_t columns = dtn_cm_window(ox, p->stride_w, p->pad_w, p->kernel_w, 1, p->in_w);
        const bool is_pair = at + 1 < strip->count && ox + 1 < p->out_w && is_whole(p, ox) && is_whole(p, ox + 1);
        const int32_t first = rows.first > part->first ? rows.first : part->first;
        const int32_t end = rows.end < part->end ? rows.end : part->end;
        if (first < end && columns.end != 0) {
            const size_t y = (size_t)(rows.start + first * p->dilation_h);
            const windows_t windows = {
                .input = image->input + y * line + (size_t)(columns.start + columns.first) * inputs,
                .apart = is_pair ? (size_t)p->stride_w * inputs : 0,
                .next_row = (size_t)p->dilation_h * line,
                .weights = part->block.weights + (size_t)(first - part->first) * part->words +
                           (size_t)columns.first * inputs / 2 * TRIPLE,
                .next_weights = part->words,
                .run = (size_t)(columns.end - columns.first) * inputs,
                .rows = end - first,
            };
            uint32_t sums[2 * TRIPLE];
            memcpy(sums, strip->sums[at], TRIPLE * sizeof *sums);
            memcpy(sums + TRIPLE, strip->sums[at + is_pair], TRIPLE * sizeof *sums);
            add_windows(&windows, sums);
            memcpy(strip->sums[at + is_pair], sums + TRIPLE, TRIPLE * sizeof *sums);
            memcpy(strip->sums[at], sums, TRIPLE * sizeof *sums);
        }
        at += 1 + is_pair;
        ox += 1 + is_pair;
        if (ox == p->out_w) {
            ox = 0;
            oy++;
            rows = dtn_cm_window(oy, p->stride_h, p->pad_h, p->kernel_h, p->dilation_h, p->in_h);
        }
    }
}

/* Outputs of a strip. */
static inline __attribute__((always_inline)) void store(const dtn_dsp_factor_s16_t factors[TRIPLE],
                                                        const dtn_cm_scale_s16_t *scale, bool is_relu,
                                                        const strip_t *strip, int16_t *output, size_t pitch)
{
    for (int32_t at = 0; at < strip->count; at++) {
        for (size_t i = 0; i < TRIPLE; i++) {
            output[i] = dtn_dsp_scaled_s16(&factors[i], scale, is_relu, strip->sums[at][i]);
        }
        output += pitch;
    }
}

static __attribute__((noinline)) void store_strip(const dtn_dsp_factor_s16_t factors[TRIPLE],
                                                  const dtn_cm_scale_s16_t *scale, const strip_t *strip,
                                                  int16_t *output, size_t pitch)
{
    if (dtn_dsp_is_relu_s16(scale)) {
        store(factors, scale, true, strip, output, pitch);
    } else {
        store(factors, scale, false, strip, output, pitch);
    }
}

/* All pixels of three channels. */
static void three_channels(const dtn_cm_image_s16_t *image, size_t channel)
{
    const params_t *p = image->p;
    const int32_t pixels = p->out_h * p->out_w;
    const size_t pitch = (size_t)p->out_c;
    part_t part = {.first = 0};
    strip_t strip;
    for (size_t i = 0; i < TRIPLE; i++) {
        part.block.factors[i] = dtn_dsp_factor_s16(&image->scale, channel + i);
    }
    unpack_part(image, channel, &part);
    for (strip.first = 0; strip.first < pixels; strip.first += STRIP) {
        strip.count = pixels - strip.first < STRIP ? pixels - strip.first : STRIP;
        memset(strip.sums, 0, sizeof strip.sums);
        for (int32_t row = 0; row < p->kernel_h; row = part.end) {
            if (row != part.first) {
                part.first = row;
                unpack_part(image, channel, &part);
            }
            add_part(image, &part, &strip);
        }
        store_strip(part.block.factors, &image->scale, &strip, image->output + (size_t)strip.first * pitch + channel,
                    pitch);
    }
}

bool dtn_cm_convolve_s16(const dtn_cm_image_s16_t *image)
{
    const params_t *p = image->p;
    const size_t run = run_of(p);
    /* Words of weights have two elements, and the parts of windows that are on the map begin at any column. */
    if (p->in_c % 2 != 0 || run < LEAST_RUN || run > DTN_DSP_MOST_UNPACKED || p->out_c < TRIPLE ||
        image->scale.least_shift < DTN_CM_S16_LEAST_SHIFT || !are_small(image->weights, patch_of(p), p->out_c)) {
        return false;
    }
    for (size_t next = 0; next < (size_t)p->out_c; next += TRIPLE) {
        /* Some of the last channels may be made once more. */
        const size_t left = (size_t)p->out_c - next;
        three_channels(image, left < TRIPLE ? next + left - TRIPLE : next);
    }
    return true;
}
