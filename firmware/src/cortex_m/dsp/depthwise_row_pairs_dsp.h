/**
 * @file
 * Two rows of outputs of a depthwise convolution of 3x3 with stride 1, by DSP instructions. Other processors compute
 * the same in C.
 *
 * A column of four inputs x0 to x3 of a channel is two words, (x0, x1) and (x2, x3). With a column of weights as the
 * words (w0, w1) and (w1, w2) it makes parts of two outputs by four instructions:
 *
 *   x0 w0 + x1 w1 + x2 w2 = (x0, x1) . (w0, w1) + x2 w2
 *   x1 w0 + x2 w1 + x3 w2 = x1 w0 + (x2, x3) . (w1, w2)
 *
 * Four channels one after the other, each at three pixels side by side, or at two:
 *
 *   r0 the columns; for the outputs a multiplier        r1 the channels; a shift
 *   r2, r3 two words of inputs; a product               r11, r12 two words of weights; the outputs, and the addend
 *   r4, r5, r6 sums of the upper row, r7, r8, r10 of the lower; when they are stored, r4 from a pixel to the next
 *   lr the start of the sums; 2^30
 *
 *   sp + 0 columns, 4 channels, 8 outputs, 12 from a pixel to the next, 16 saved registers, 48 from a row to the next,
 *   52 addend
 *
 * As in loops_dsp.h the functions never touch r9.
 */
#pragma once

#include "../windows.h"
#include "loops_dsp.h"
#include "scale_dsp.h"

/* Columns of a line that are in memory at once, two more than outputs, and channels. */
enum { DTN_DSP_PAIRS_COLUMNS = 26, DTN_DSP_PAIRS_CHANNELS = 4 };

/** A channel: of each column of its kernel the weights 0 and 1, and 1 and 2; its bias with the offset of all weights.
 */
typedef struct {
    uint32_t weights[3][2];
    uint32_t start;
    dtn_cm_factor_t factor;
} dtn_dsp_pairs_channel_t;

/** A column of four channels at four rows. */
typedef struct {
    uint32_t rows[4][2];
} dtn_dsp_pairs_column_t;

#if defined(__ARM_FEATURE_DSP)

/* clang-format off */

/* A channel's inputs of a column by a column of weights, with the sums of an upper and a lower output. */
#define DTN_DSP_PAIRS_OF_COLUMN(channel, column, upper, lower, first_upper, first_lower) \
    "ldrd r2, r3, [r0, #8*" channel "+32*" column "]\n" \
    "smlad " upper ", r2, r11, " first_upper "\n" \
    "smlatb " lower ", r2, r11, " first_lower "\n" \
    "smlabt " upper ", r3, r12, " upper "\n" \
    "smlad " lower ", r3, r12, " lower "\n"
#define DTN_DSP_FIRST_PAIRS(channel, column, upper, lower) \
    DTN_DSP_PAIRS_OF_COLUMN(channel, column, upper, lower, "lr", "lr")
#define DTN_DSP_NEXT_PAIRS(channel, column, upper, lower) \
    DTN_DSP_PAIRS_OF_COLUMN(channel, column, upper, lower, upper, lower)

#define DTN_DSP_PAIRS_STORE(sum, place) DTN_DSP_OUTPUT(sum, place, "r0", "r1", "r2", "r3", "lr", "r12")

/* A third pixel: the sums with each column of weights, and an output of the upper row and of the lower. */
#define DTN_DSP_THIRD_FIRST(channel) DTN_DSP_FIRST_PAIRS(channel, "2", "r6", "r10")
#define DTN_DSP_THIRD_NEXT(channel, column) DTN_DSP_NEXT_PAIRS(channel, column, "r6", "r10")
#define DTN_DSP_THIRD_STORE(sum) DTN_DSP_PAIRS_STORE(sum, "[r11, r4, lsl #1]")
#define DTN_DSP_NO_FIRST(channel) ""
#define DTN_DSP_NO_NEXT(channel, column) ""
#define DTN_DSP_NO_STORE(sum) ""

/* The pixels of a channel, with the third one or without it. */
#define DTN_DSP_PAIRS_OF_CHANNEL(channel, third) \
    "ldrd r0, r1, [sp]\n" \
    "ldrd r11, r12, [r1, #36*" channel "]\n" \
    "ldr lr, [r1, #36*" channel "+24]\n" \
    DTN_DSP_FIRST_PAIRS(channel, "0", "r4", "r7") \
    DTN_DSP_FIRST_PAIRS(channel, "1", "r5", "r8") \
    third##_FIRST(channel) \
    "ldrd r11, r12, [r1, #36*" channel "+8]\n" \
    DTN_DSP_NEXT_PAIRS(channel, "1", "r4", "r7") \
    DTN_DSP_NEXT_PAIRS(channel, "2", "r5", "r8") \
    third##_NEXT(channel, "3") \
    "ldrd r11, r12, [r1, #36*" channel "+16]\n" \
    DTN_DSP_NEXT_PAIRS(channel, "2", "r4", "r7") \
    DTN_DSP_NEXT_PAIRS(channel, "3", "r5", "r8") \
    third##_NEXT(channel, "4") \
    "ldr r11, [sp, #8]\n" \
    "ldr r12, [sp, #52]\n" \
    "mov lr, #0x40000000\n" \
    "ldrd r0, r1, [r1, #36*" channel "+28]\n" \
    "add r11, r11, #" channel "\n" \
    DTN_DSP_PAIRS_STORE("r4", "[r11]") \
    "ldr r4, [sp, #12]\n" \
    DTN_DSP_PAIRS_STORE("r5", "[r11, r4]") \
    third##_STORE("r6") \
    "ldr r5, [sp, #48]\n" \
    "add r11, r11, r5\n" \
    DTN_DSP_PAIRS_STORE("r7", "[r11]") \
    DTN_DSP_PAIRS_STORE("r8", "[r11, r4]") \
    third##_STORE("r10")

#define DTN_DSP_ROW_PAIRS(third) \
    "push {r0, r1, r2, r3, r4, r5, r6, r7, r8, r10, r11, lr}\n" \
    DTN_DSP_PAIRS_OF_CHANNEL("0", third) \
    DTN_DSP_PAIRS_OF_CHANNEL("1", third) \
    DTN_DSP_PAIRS_OF_CHANNEL("2", third) \
    DTN_DSP_PAIRS_OF_CHANNEL("3", third) \
    "add sp, sp, #16\n" \
    "pop {r4, r5, r6, r7, r8, r10, r11, pc}\n"

#define DTN_DSP_ROW_PAIRS_OF_TWO DTN_DSP_ROW_PAIRS(DTN_DSP_NO)
#define DTN_DSP_ROW_PAIRS_OF_THREE DTN_DSP_ROW_PAIRS(DTN_DSP_THIRD)

/* clang-format on */

/* The assembly is one string, longer than C99 requires of a compiler. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverlength-strings"

/**
 * Stores two pixels of two rows, from the columns on, for four channels. Pixels are `pixel` bytes apart,
 * rows `row`. `addend` is as `dtn_dsp_half_s8` takes it.
 */
DTN_DSP_NAKED static void dtn_dsp_two_pixels(const dtn_dsp_pairs_column_t *columns DTN_DSP_PARAMETER,
                                             const dtn_dsp_pairs_channel_t *channel DTN_DSP_PARAMETER,
                                             int8_t *out DTN_DSP_PARAMETER, size_t pixel DTN_DSP_PARAMETER,
                                             size_t row DTN_DSP_PARAMETER, int32_t addend DTN_DSP_PARAMETER)
{
    __asm__(DTN_DSP_ROW_PAIRS_OF_TWO);
}

/** The same for three pixels. */
DTN_DSP_NAKED static void dtn_dsp_three_pixels(const dtn_dsp_pairs_column_t *columns DTN_DSP_PARAMETER,
                                               const dtn_dsp_pairs_channel_t *channel DTN_DSP_PARAMETER,
                                               int8_t *out DTN_DSP_PARAMETER, size_t pixel DTN_DSP_PARAMETER,
                                               size_t row DTN_DSP_PARAMETER, int32_t addend DTN_DSP_PARAMETER)
{
    __asm__(DTN_DSP_ROW_PAIRS_OF_THREE);
}

#pragma GCC diagnostic pop

#else

static inline void dtn_dsp_some_pixels(const dtn_dsp_pairs_column_t *columns, const dtn_dsp_pairs_channel_t *channel,
                                       size_t count, int8_t *out, size_t pixel, size_t row, int32_t addend)
{
    for (size_t i = 0; i < DTN_DSP_PAIRS_CHANNELS; i++) {
        for (size_t x = 0; x < count; x++) {
            uint32_t upper = channel[i].start;
            uint32_t lower = channel[i].start;
            for (size_t kx = 0; kx < 3; kx++) {
                const uint32_t *inputs = columns[x + kx].rows[i];
                const uint32_t *weights = channel[i].weights[kx];
                upper = dtn_dsp_lower_upper(inputs[1], weights[1], dtn_dsp_both(inputs[0], weights[0], upper));
                lower = dtn_dsp_lower_upper(weights[0], inputs[0], dtn_dsp_both(inputs[1], weights[1], lower));
            }
            out[i + x * pixel] = dtn_dsp_output(upper, &channel[i].factor, 0, addend);
            out[i + x * pixel + row] = dtn_dsp_output(lower, &channel[i].factor, 0, addend);
        }
    }
}

static inline void dtn_dsp_two_pixels(const dtn_dsp_pairs_column_t *columns, const dtn_dsp_pairs_channel_t *channel,
                                      int8_t *out, size_t pixel, size_t row, int32_t addend)
{
    dtn_dsp_some_pixels(columns, channel, 2, out, pixel, row, addend);
}

static inline void dtn_dsp_three_pixels(const dtn_dsp_pairs_column_t *columns, const dtn_dsp_pairs_channel_t *channel,
                                        int8_t *out, size_t pixel, size_t row, int32_t addend)
{
    dtn_dsp_some_pixels(columns, channel, 3, out, pixel, row, addend);
}

#endif

/* The numbers of four channels. */
typedef struct {
    const dtn_cm_windows_t *p;
    int32_t addend;
    uint32_t pad; /* four bytes of a position in the padding */
    dtn_dsp_pairs_channel_t channels[DTN_DSP_PAIRS_CHANNELS];
    dtn_dsp_pairs_column_t columns[DTN_DSP_PAIRS_COLUMNS];
} dtn_dsp_row_pairs_t;

static void dtn_dsp_pairs_channels(dtn_dsp_row_pairs_t *pairs, const dtn_cm_convolution_t *layer, size_t first)
{
    const size_t pitch = layer->taps_pitch;
    for (size_t i = 0; i < DTN_DSP_PAIRS_CHANNELS; i++) {
        dtn_dsp_pairs_channel_t *channel = &pairs->channels[i];
        const int8_t *w = layer->weights + first + i;
        int32_t sum = 0;
        for (size_t kx = 0; kx < 3; kx++, w += pitch) {
            const int32_t w0 = w[0];
            const int32_t w1 = w[3 * pitch];
            const int32_t w2 = w[6 * pitch];
            channel->weights[kx][0] = ((uint32_t)w0 & 0xFFFFU) | (uint32_t)w1 << 16;
            channel->weights[kx][1] = ((uint32_t)w1 & 0xFFFFU) | (uint32_t)w2 << 16;
            sum += w0 + w1 + w2;
        }
        channel->start = dtn_cm_bias(layer, first + i) + (uint32_t)(sum * layer->p->in_offset);
        channel->factor = dtn_cm_factor(&layer->scale, first + i);
    }
}

/* A column: of each row a word of four channels. */
static inline void dtn_dsp_pairs_column(uint32_t a, uint32_t b, uint32_t c, uint32_t d, dtn_dsp_pairs_column_t *column)
{
    const uint32_t upper = dtn_dsp_pack_lower(a, b);
    const uint32_t lower = dtn_dsp_pack_lower(c, d);
    const uint32_t next_upper = dtn_dsp_pack_upper(a, b);
    const uint32_t next_lower = dtn_dsp_pack_upper(c, d);
    DTN_DSP_STORE_PAIR(column->rows, 0, dtn_dsp_even(upper), dtn_dsp_even(lower));
    DTN_DSP_STORE_PAIR(column->rows, 1, dtn_dsp_odd(upper), dtn_dsp_odd(lower));
    DTN_DSP_STORE_PAIR(column->rows, 2, dtn_dsp_even(next_upper), dtn_dsp_even(next_lower));
    DTN_DSP_STORE_PAIR(column->rows, 3, dtn_dsp_odd(next_upper), dtn_dsp_odd(next_lower));
}

/* Columns in the padding; the next column. */
static inline dtn_dsp_pairs_column_t *dtn_dsp_pairs_padding(uint32_t pad, int32_t count, dtn_dsp_pairs_column_t *column)
{
    const uint32_t halves = dtn_dsp_even(pad);
    for (; count > 0; count--, column++) {
        for (size_t i = 0; i < DTN_DSP_PAIRS_CHANNELS; i++) {
            dtn_dsp_store_two(halves, halves, column->rows[i]);
        }
    }
    return column;
}

/* Columns of four rows that are on the map. */
__attribute__((noinline)) static void dtn_dsp_pairs_inside(const int8_t *input, size_t line, size_t pixel,
                                                           int32_t count, dtn_dsp_pairs_column_t *column)
{
    const int8_t *last = input + 3 * line;
    for (; count > 0; count--, column++) {
        dtn_dsp_pairs_column(dtn_dsp_load(input), dtn_dsp_load(input + line), dtn_dsp_load(input + 2 * line),
                             dtn_dsp_load(last), column);
        input += pixel;
        last += pixel;
    }
}

/* The same from (y, x) on, where some rows are in the padding. */
__attribute__((noinline)) static void dtn_dsp_pairs_at_edge(const dtn_dsp_row_pairs_t *pairs, const int8_t *image,
                                                            int32_t y, int32_t x, int32_t count,
                                                            dtn_dsp_pairs_column_t *column)
{
    const dtn_cm_windows_t *p = pairs->p;
    const int8_t *rows[4];
    size_t steps[4];
    for (int32_t i = 0; i < 4; i++) {
        const bool is_inside = y + i >= 0 && y + i < p->in_h;
        const size_t pixel = is_inside ? ((size_t)(y + i) * (size_t)p->in_w + (size_t)x) * (size_t)p->in_c : 0;
        rows[i] = is_inside ? image + pixel : (const int8_t *)&pairs->pad;
        steps[i] = is_inside ? (size_t)p->in_c : 0;
    }
    for (; count > 0; count--, column++) {
        dtn_dsp_pairs_column(dtn_dsp_load(rows[0]), dtn_dsp_load(rows[1]), dtn_dsp_load(rows[2]), dtn_dsp_load(rows[3]),
                             column);
        for (size_t i = 0; i < 4; i++) {
            rows[i] += steps[i];
        }
    }
}

/* `count` pixels, 1 to 3, of two rows, or of one. */
static void dtn_dsp_pairs_pixels(const dtn_dsp_row_pairs_t *pairs, const dtn_dsp_pairs_column_t *columns, int32_t count,
                                 bool is_single, int8_t *out)
{
    const size_t pixel = (size_t)pairs->p->out_c;
    const size_t row = (size_t)pairs->p->out_w * pixel;
    if (count == 3 && !is_single) {
        dtn_dsp_three_pixels(columns, pairs->channels, out, pixel, row, pairs->addend);
    } else if (count == 2 && !is_single) {
        dtn_dsp_two_pixels(columns, pairs->channels, out, pixel, row, pairs->addend);
    } else {
        int8_t whole[2][3][DTN_DSP_PAIRS_CHANNELS];
        const size_t whole_row = sizeof whole[0];
        /* A pointer to either function would leave the stack's bound unknown. */
        if (count == 3) {
            dtn_dsp_three_pixels(columns, pairs->channels, whole[0][0], sizeof whole[0][0], whole_row, pairs->addend);
        } else {
            dtn_dsp_two_pixels(columns, pairs->channels, whole[0][0], sizeof whole[0][0], whole_row, pairs->addend);
        }
        for (int32_t x = 0; x < count; x++) {
            memcpy(out + (size_t)x * pixel, whole[0][x], sizeof whole[0][0]);
            if (!is_single) {
                memcpy(out + row + (size_t)x * pixel, whole[1][x], sizeof whole[1][0]);
            }
        }
    }
}

/* Four channels of `count` pixels from column `first` on, of all rows. `image` is the first input, `output` the first
 * output. */
static void dtn_dsp_pairs_pixels_of_rows(dtn_dsp_row_pairs_t *pairs, const int8_t *image, int8_t *output, int32_t first,
                                         int32_t count)
{
    const dtn_cm_windows_t p = *pairs->p;
    const size_t line = (size_t)p.in_w * (size_t)p.in_c;
    const int32_t columns = count == 1 ? 4 : count + 2; /* a single pixel has a neighbour, which is not stored */
    const int32_t start = first - p.pad_w;
    const int32_t before = start >= 0 ? 0 : -start < columns ? -start : columns;
    const int32_t x = start + before;
    const int32_t most = p.in_w > x ? p.in_w - x : 0;
    const int32_t inside = columns - before < most ? columns - before : most;
    dtn_dsp_pairs_column_t *column = dtn_dsp_pairs_padding(pairs->pad, before, pairs->columns);
    (void)dtn_dsp_pairs_padding(pairs->pad, columns - before - inside, column + inside);
    for (int32_t oy = 0; oy < p.out_h; oy += 2) {
        const int32_t y = oy - p.pad_h;
        if (y >= 0 && y + 3 < p.in_h && inside > 0) {
            const int8_t *input = image + (size_t)y * line + (size_t)x * (size_t)p.in_c;
            dtn_dsp_pairs_inside(input, line, (size_t)p.in_c, inside, column);
        } else {
            dtn_dsp_pairs_at_edge(pairs, image, y, x, inside, column);
        }
        int8_t *out = output + ((size_t)oy * (size_t)p.out_w + (size_t)first) * (size_t)p.out_c;
        const bool is_single = oy + 1 == p.out_h;
        const dtn_dsp_pairs_column_t *at = pairs->columns;
        for (int32_t left = count, some; left > 0; left -= some) {
            some = left == 4 ? 2 : left < 3 ? left : 3;
            dtn_dsp_pairs_pixels(pairs, at, some, is_single, out);
            at += some;
            out += (size_t)some * (size_t)p.out_c;
        }
    }
}

/** All channels of a depthwise convolution; false where it is not of this kind, and nothing is written then. */
__attribute__((noinline)) static bool dtn_dsp_row_pairs(const dtn_cm_convolution_t *layer, bool is_plain)
{
    const dtn_cm_windows_t *p = layer->p;
    const bool is_kind = p->kernel_h == 3 && p->kernel_w == 3 && p->stride_h == 1 && p->stride_w == 1 &&
                         p->dilation_h == 1 && p->dilation_w == 1 && p->in_c == p->out_c;
    if (!is_kind || !is_plain || !dtn_cm_is_s8(-p->in_offset) || layer->channels < DTN_DSP_PAIRS_CHANNELS) {
        return false;
    }
    dtn_dsp_row_pairs_t pairs = {.p = p, .addend = dtn_dsp_addend(&layer->scale)};
    pairs.pad = ((uint32_t)-p->in_offset & 0xFFU) * UINT32_C(0x01010101);
    enum { PIXELS = DTN_DSP_PAIRS_COLUMNS - 2 };
    const size_t image = (size_t)p->in_h * (size_t)p->in_w * (size_t)p->in_c;
    const size_t output = (size_t)p->out_h * (size_t)p->out_w * (size_t)p->out_c;
    for (size_t at = 0; at < layer->channels; at += DTN_DSP_PAIRS_CHANNELS) {
        /* The last four may be among those before them. */
        const size_t most = layer->channels - DTN_DSP_PAIRS_CHANNELS;
        const size_t first = at < most ? at : most;
        dtn_dsp_pairs_channels(&pairs, layer, first);
        for (size_t b = 0; b < (size_t)p->batches; b++) {
            for (int32_t x = 0; x < p->out_w; x += PIXELS) {
                dtn_dsp_pairs_pixels_of_rows(&pairs, layer->input + b * image + first,
                                             layer->output + b * output + first, x,
                                             p->out_w - x < PIXELS ? p->out_w - x : PIXELS);
            }
        }
    }
    return true;
}
