#include "../interleaved_weights.h"
#include "interleaved_loops_dsp.h"
#include "row_sums_s8_dsp.h"

enum { ROW = 640, /* most elements of a row that is alone */ FOUR = 4 };

void dtn_dsp_multiply_three(const dtn_cm_product_t *product, const uint32_t *words, size_t count, int8_t *output,
                            size_t pitch)
{
    const dtn_cm_scale_t *scale = &product->scale;
    const uint32_t *end = words + count * DTN_DSP_THREE;
    const size_t skipped = ((size_t)0 - count) % DTN_DSP_THREE_STEPS * DTN_DSP_THREE_STEP_BYTES;
    const int32_t addend = dtn_dsp_addend(scale);
    if (scale->step != 0) {
        dtn_dsp_three_by_pairs(words, product->weights, product->weights + product->channels * 2 * count, end, skipped,
                               product->bias, scale->multipliers, scale->shifts, output, pitch, addend);
        return;
    }
    /* The factors of a pair, which are the same. */
    const int32_t multipliers[2] = {scale->multipliers[0], scale->multipliers[0]};
    const int32_t shifts[2] = {scale->shifts[0], scale->shifts[0]};
    for (size_t i = 0; i < product->channels; i += 2) {
        const int8_t *pair = product->weights + i * 2 * count;
        dtn_dsp_three_by_pairs(words, pair, pair + 4 * count, end, skipped, product->bias + i, multipliers, shifts,
                               output + i, pitch, addend);
    }
}

/* Three rows, which may be in part the same as those before. With fewer rows in all they are one. */
void dtn_dsp_multiply_rows(const dtn_cm_product_t *product)
{
    uint32_t words[DTN_DSP_THREE_WORDS];
    const size_t rows = product->rows < DTN_DSP_THREE ? 1 : DTN_DSP_THREE;
    const size_t pitch = rows == 1 ? 0 : product->input_pitch;
    for (size_t next = 0; next < product->rows; next += rows) {
        const size_t first = dtn_dsp_min(next, product->rows - rows);
        const int8_t *input = product->input + first * product->input_pitch;
        for (size_t i = 0; i < DTN_DSP_THREE; i++) {
            dtn_dsp_unpack_row_of_three(input, product->depth, words + i);
            input += pitch;
        }
        dtn_dsp_multiply_three(product, words, dtn_cm_interleaved_words(product->depth),
                               product->output + first * product->output_pitch,
                               rows == 1 ? 0 : product->output_pitch);
    }
}

/* Each row by itself. The last four channels may be in part the same as those before. */
static void one_by_one(const dtn_cm_product_t *product)
{
    uint32_t words[ROW / 2];
    const dtn_cm_factor_t factor = dtn_cm_factor(&product->scale, 0);
    const size_t depth = product->depth;
    const size_t whole = product->channels / FOUR * FOUR;
    for (size_t row = 0; row < product->rows; row++) {
        int8_t *output = product->output + row * product->output_pitch;
        dtn_dsp_unpack(product->input + row * product->input_pitch, 0, depth / 4, words, 2);
        for (size_t first = 0; first != product->channels; ) {
            const size_t from = first == 0 ? 0 : product->channels - FOUR;
            const size_t end = first == 0 ? whole : product->channels;
            dtn_dsp_row_by_pairs(words, product->weights + from * depth, 2 * depth, 0, product->weights + end * depth,
                                 words + depth / 32 * 16, words + depth / 2, product->bias + from, output + from,
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
    if (product->rows >= DTN_DSP_THREE && dtn_cm_interleaved_words(product->depth) <= DTN_DSP_MOST_WORDS) {
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
