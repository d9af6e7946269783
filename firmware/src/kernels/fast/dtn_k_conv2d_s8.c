#include "../check/check.h"
#include "../window.h"
#include "block.h"

/* Output pixels at a time; the workspace holds the input of one window of each as 16-bit numbers. */
enum { PIXELS = 4 };

/* Numbers that are constant during a call. */
typedef struct {
    const dtn_conv2d_s8_params_t *p;
    const int8_t *weights;
    const int32_t *bias;
    const dtn_requant_row_t *rows;
    size_t patch; /* elements of a window */
    size_t pitch; /* elements from one window to the next in the workspace: patch rounded up, zeros between */
    dtn_range_t range;
} conv_t;

static void widen(const int8_t *in, size_t count, int32_t zero_point, int16_t *restrict out)
{
    for (size_t i = 0; i < count; i++) {
        out[i] = (int16_t)(in[i] - zero_point);
    }
}

/* The window of one output pixel; positions outside the map are 0, as the input equals its zero point there. */
static void gather(const conv_t *conv, const int8_t *image, int32_t oy, int32_t ox, int16_t *column)
{
    const dtn_conv2d_s8_params_t *p = conv->p;
    dtn_window_t rows = dtn_window(oy, p->stride_h, p->pad_top, p->kernel_h, p->dilation_h, p->in_h);
    dtn_window_t columns = dtn_window(ox, p->stride_w, p->pad_left, p->kernel_w, p->dilation_w, p->in_w);
    size_t channels = (size_t)p->in_c;
    bool whole = rows.end - rows.first == p->kernel_h && columns.end - columns.first == p->kernel_w;
    memset(column + (whole ? conv->patch : 0), 0, (conv->pitch - (whole ? conv->patch : 0)) * sizeof *column);
    for (int32_t ky = rows.first; ky < rows.end; ky++) {
        size_t y = (size_t)(rows.start + (int64_t)ky * p->dilation_h);
        int16_t *to = column + (size_t)ky * (size_t)p->kernel_w * channels;
        const int8_t *line = image + y * (size_t)p->in_w * channels;
        if (p->dilation_w == 1 && columns.first < columns.end) {
            const int8_t *from = line + (size_t)(columns.start + columns.first) * channels;
            size_t count = (size_t)(columns.end - columns.first) * channels;
            widen(from, count, p->in_zp, to + (size_t)columns.first * channels);
            continue;
        }
        for (int32_t kx = columns.first; kx < columns.end; kx++) {
            size_t x = (size_t)(columns.start + (int64_t)kx * p->dilation_w);
            widen(line + x * channels, channels, p->in_zp, to + (size_t)kx * channels);
        }
    }
}

/* Adds the products of four windows with two rows of weights to sums[pixel][0..1]. */
static void dot_4x2(const int16_t *columns, size_t pitch, const int8_t *w0, const int8_t *w1, size_t count,
                    uint32_t (*sums)[DTN_BLOCK])
{
    const int16_t *c0 = columns;
    const int16_t *c1 = columns + pitch;
    const int16_t *c2 = columns + 2 * pitch;
    const int16_t *c3 = columns + 3 * pitch;
    uint32_t s00 = 0, s01 = 0, s10 = 0, s11 = 0, s20 = 0, s21 = 0, s30 = 0, s31 = 0;
    for (size_t k = 0; k < count; k++) {
        int16_t a = w0[k];
        int16_t b = w1[k];
        s00 += (uint32_t)(c0[k] * a);
        s01 += (uint32_t)(c0[k] * b);
        s10 += (uint32_t)(c1[k] * a);
        s11 += (uint32_t)(c1[k] * b);
        s20 += (uint32_t)(c2[k] * a);
        s21 += (uint32_t)(c2[k] * b);
        s30 += (uint32_t)(c3[k] * a);
        s31 += (uint32_t)(c3[k] * b);
    }
    sums[0][0] += s00;
    sums[0][1] += s01;
    sums[1][0] += s10;
    sums[1][1] += s11;
    sums[2][0] += s20;
    sums[2][1] += s21;
    sums[3][0] += s30;
    sums[3][1] += s31;
}

/* The sum of the products of one window with one row of weights. */
static uint32_t dot(const int16_t *column, const int8_t *weights, size_t count)
{
    uint32_t sum = 0;
    for (size_t k = 0; k < count; k++) {
        sum += (uint32_t)(column[k] * (int16_t)weights[k]);
    }
    return sum;
}

/*
 * Elements to multiply for the rows of weights up to `last`: a whole number of vectors if that stays inside the
 * weights, else the exact number. Extra weights are multiplied by zeros in the window.
 */
static size_t dot_length(const conv_t *conv, int32_t last)
{
    size_t total = (size_t)conv->p->out_c * conv->patch;
    return (size_t)last * conv->patch + conv->pitch <= total ? conv->pitch : conv->patch;
}

/* Sums of `n` channels from `first` on for `pixels` windows. */
static void block_sums(const conv_t *conv, const int16_t *columns, int32_t pixels, int32_t first, int32_t n,
                       uint32_t (*sums)[DTN_BLOCK])
{
    for (int32_t i = 0; i < pixels; i++) {
        for (int32_t j = 0; j < n; j++) {
            sums[i][j] = (uint32_t)conv->bias[first + j];
        }
    }
    int32_t j = 0;
    for (; pixels == PIXELS && j + 1 < n; j += 2) {
        const int8_t *weights = conv->weights + (size_t)(first + j) * conv->patch;
        size_t count = dot_length(conv, first + j + 1);
        dot_4x2(columns, conv->pitch, weights, weights + conv->patch, count, (uint32_t (*)[DTN_BLOCK])(&sums[0][j]));
    }
    for (; j < n; j++) {
        const int8_t *weights = conv->weights + (size_t)(first + j) * conv->patch;
        size_t count = dot_length(conv, first + j);
        for (int32_t i = 0; i < pixels; i++) {
            sums[i][j] += dot(columns + (size_t)i * conv->pitch, weights, count);
        }
    }
}

/* All channels of up to PIXELS neighbouring output pixels. */
static void finish_pixels(const conv_t *conv, const int16_t *columns, int32_t pixels, int8_t *out)
{
    const dtn_conv2d_s8_params_t *p = conv->p;
    uint32_t sums[PIXELS][DTN_BLOCK] = {{0}};
    dtn_block_t block;
    dtn_block_fill(&block, conv->rows[0]);
    for (int32_t first = 0; first < p->out_c; first += DTN_BLOCK) {
        int32_t n = dtn_block_size(p->out_c - first);
        block_sums(conv, columns, pixels, first, n, sums);
        if (p->requant_count != 1) {
            dtn_block_load(&block, conv->rows + first, n);
        }
        for (int32_t i = 0; i < pixels; i++) {
            dtn_block_store(sums[i], &block, conv->range, out + (size_t)i * (size_t)p->out_pitch + first, n);
        }
    }
}

static void run(const conv_t *conv, const int8_t *image, int16_t *columns, int8_t *out)
{
    const dtn_conv2d_s8_params_t *p = conv->p;
    int32_t waiting = 0;
    for (int32_t b = 0; b < p->batches; b++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            for (int32_t ox = 0; ox < p->out_w; ox++) {
                gather(conv, image, oy, ox, columns + (size_t)waiting * conv->pitch);
                if (++waiting == PIXELS) {
                    finish_pixels(conv, columns, PIXELS, out);
                    out += PIXELS * (size_t)p->out_pitch;
                    waiting = 0;
                }
            }
        }
        image += (size_t)p->in_h * (size_t)p->in_w * (size_t)p->in_c;
    }
    finish_pixels(conv, columns, waiting, out);
}

int32_t dtn_k_conv2d_s8(const dtn_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return (int32_t)dtn_check_conv2d_s8(call);
    }
    const dtn_operand_t *operands = call->operands;
    const dtn_conv2d_s8_params_t *p = (const dtn_conv2d_s8_params_t *)(const void *)call->params;
    size_t patch = (size_t)p->kernel_h * (size_t)p->kernel_w * (size_t)p->in_c;
    conv_t conv = {
        .p = p,
        .weights = (const int8_t *)operands[DTN_CONV2D_S8_WEIGHTS].data,
        .bias = (const int32_t *)(const void *)operands[DTN_CONV2D_S8_BIAS].data,
        .rows = (const dtn_requant_row_t *)(const void *)operands[DTN_CONV2D_S8_REQUANT].data,
        .patch = patch,
        .pitch = (patch + 15) / 16 * 16,
        .range = {p->out_zp, p->act_min, p->act_max},
    };
    run(&conv, (const int8_t *)operands[DTN_CONV2D_S8_INPUT].data,
        (int16_t *)(void *)operands[DTN_CONV2D_S8_WORKSPACE].data, (int8_t *)operands[DTN_CONV2D_S8_OUTPUT].data);
    return DTN_OK;
}
