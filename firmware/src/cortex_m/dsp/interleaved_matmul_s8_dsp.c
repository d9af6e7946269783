#include "../interleaved_weights.h"
#include "interleaved_loops_dsp.h"
#include "row_sums_s8_dsp.h"

enum { ROW = 640, /* most elements of a row that is alone */ FOUR = 4 };

static inline size_t bytes_of_weights(const dtn_dsp_channels_t *channels)
{
    const size_t weights = channels->count * 2 * channels->words;
    return channels->has_s16_weights ? 2 * weights : weights;
}

void dtn_dsp_multiply_three(const dtn_dsp_channels_t *channels, const uint32_t *inputs, int8_t *output, size_t pitch)
{
    const size_t words = channels->words;
    const size_t lacks = ((size_t)0 - words) % DTN_DSP_THREE_STEPS;
    const bool is_s16 = channels->has_s16_weights;
    dtn_dsp_three_by_pairs(
        inputs, channels->weights, channels->weights + bytes_of_weights(channels), inputs + words * DTN_DSP_THREE,
        is_s16 ? lacks * DTN_DSP_THREE_S16_STEP_BYTES + DTN_DSP_THREE_S16 : lacks * DTN_DSP_THREE_STEP_BYTES,
        channels->bias, channels->multipliers, channels->shifts, output, pitch, channels->addend);
}

/* The same for channels that have one factor: a pair of them at a time. */
static void with_one_factor(dtn_dsp_channels_t channels, const uint32_t *inputs, int8_t *output, size_t pitch)
{
    const int32_t multipliers[2] = {channels.multipliers[0], channels.multipliers[0]};
    const int32_t shifts[2] = {channels.shifts[0], channels.shifts[0]};
    channels.multipliers = multipliers;
    channels.shifts = shifts;
    size_t left = channels.count;
    for (channels.count = 2; left != 0; left -= 2) {
        dtn_dsp_multiply_three(&channels, inputs, output, pitch);
        channels.weights += bytes_of_weights(&channels);
        channels.bias += 2;
        output += 2;
    }
}

/* Three rows, which may be in part the same as those before. With fewer rows in all they are one. */
void dtn_dsp_multiply_rows(const dtn_cm_product_t *product)
{
    uint32_t words[DTN_DSP_THREE * DTN_DSP_MOST_OF_A_ROW];
    const bool is_one = product->rows < DTN_DSP_THREE;
    const size_t rows = is_one ? 1 : DTN_DSP_THREE;
    const size_t input_pitch = is_one ? 0 : product->input_pitch;
    const size_t output_pitch = is_one ? 0 : product->output_pitch;
    const dtn_dsp_channels_t channels = {
        .weights = product->weights,
        .has_s16_weights = product->has_s16_weights,
        .bias = product->bias,
        .multipliers = product->scale.multipliers,
        .shifts = product->scale.shifts,
        .words = dtn_cm_interleaved_words(product->depth),
        .count = product->channels,
        .addend = dtn_dsp_addend(&product->scale),
    };
    for (size_t next = 0; next < product->rows; next += rows) {
        const size_t first = dtn_dsp_min(next, product->rows - rows);
        const int8_t *input = product->input + first * product->input_pitch;
        int8_t *output = product->output + first * product->output_pitch;
        for (size_t i = 0; i < DTN_DSP_THREE; i++) {
            dtn_dsp_unpack_row_of_three(input, product->depth, words + i);
            input += input_pitch;
        }
        if (product->scale.step == 0) {
            with_one_factor(channels, words, output, output_pitch);
        } else {
            dtn_dsp_multiply_three(&channels, words, output, output_pitch);
        }
    }
}

/* Each row by itself. The last four channels may be in part the same as those before. */
static void one_by_one(const dtn_cm_product_t *product)
{
    uint32_t words[ROW / 2];
    const dtn_cm_factor_t factor = dtn_cm_factor(&product->scale, 0);
    const size_t depth = product->depth;
    const size_t whole = product->channels / FOUR * FOUR;
    const size_t skipped = ((size_t)0 - depth / FOUR) % DTN_DSP_ROW_STEPS * DTN_DSP_ROW_STEP_BYTES;
    for (size_t row = 0; row < product->rows; row++) {
        int8_t *output = product->output + row * product->output_pitch;
        dtn_dsp_unpack(product->input + row * product->input_pitch, 0, depth / 4, words, 2);
        for (size_t first = 0; first != product->channels;) {
            const size_t from = first == 0 ? 0 : product->channels - FOUR;
            const size_t end = first == 0 ? whole : product->channels;
            dtn_dsp_row_by_pairs(words, product->weights + from * depth, 2 * depth, skipped,
                                 product->weights + end * depth, words + depth / 2, product->bias + from, output + from,
                                 dtn_dsp_addend(&product->scale), factor.multiplier, (int32_t)factor.drop);
            first = end;
        }
    }
}

bool dtn_cm_multiply_interleaved(const dtn_cm_product_t *product)
{
    if (!dtn_dsp_is_plain(&product->scale, 1)) {
        return false;
    }
    if (product->rows >= DTN_DSP_THREE && dtn_cm_interleaved_words(product->depth) <= DTN_DSP_MOST_OF_A_ROW) {
        dtn_dsp_multiply_rows(product);
        return true;
    }
    if (product->depth > ROW || product->depth % 4 != 0 || product->channels < FOUR ||
        (uintptr_t)product->weights % sizeof(uint32_t) != 0) {
        return false;
    }
    one_by_one(product);
    return true;
}
