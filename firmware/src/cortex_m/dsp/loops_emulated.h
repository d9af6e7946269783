/**
 * @file
 * The loops of loops_dsp.h in portable C.
 */
#pragma once

static inline void dtn_dsp_add_rows(const uint32_t *inputs, size_t fours, const int8_t *weights, size_t pitch,
                                    size_t rows, uint32_t *sums)
{
    for (size_t i = 0; i < rows; i++) {
        for (size_t four = 0; four < fours; four++) {
            uint32_t bytes = dtn_dsp_load(weights + i * pitch + 4 * four);
            sums[i] = dtn_dsp_both(inputs[2 * four], dtn_dsp_even(bytes), sums[i]);
            sums[i] = dtn_dsp_both(inputs[2 * four + 1], dtn_dsp_odd(bytes), sums[i]);
        }
    }
}

static inline void dtn_dsp_add_four_rows(const uint32_t *inputs, size_t fours, const int8_t *weights, size_t pitch,
                                         uint32_t sums[4])
{
    dtn_dsp_add_rows(inputs, fours, weights, pitch, 4, sums);
}

static inline void dtn_dsp_add_two_rows(const uint32_t *inputs, size_t fours, const int8_t *weights, size_t pitch,
                                        uint32_t sums[2])
{
    dtn_dsp_add_rows(inputs, fours, weights, pitch, 2, sums);
}

static inline void dtn_dsp_add_nine(const int8_t *input, size_t column, size_t row, uint32_t offsets,
                                    const uint32_t *taps, uint32_t sums[4])
{
    for (size_t i = 0; i < 9; i++) {
        uint32_t bytes = dtn_dsp_load(input + i / 3 * row + i % 3 * column);
        uint32_t even = dtn_dsp_add_even(offsets, bytes);
        uint32_t odd = dtn_dsp_add_odd(offsets, bytes);
        sums[0] = dtn_dsp_lower(even, taps[2 * i], sums[0]);
        sums[1] = dtn_dsp_lower(odd, taps[2 * i + 1], sums[1]);
        sums[2] = dtn_dsp_upper(even, taps[2 * i], sums[2]);
        sums[3] = dtn_dsp_upper(odd, taps[2 * i + 1], sums[3]);
    }
}

/* The output for a sum, with factor `index` of some. */
static inline int8_t dtn_dsp_output(uint32_t sum, const void *factors, size_t index, int32_t addend)
{
    int32_t factor[2];
    memcpy(factor, (const uint8_t *)factors + index * sizeof factor, sizeof factor);
    int64_t product = (int64_t)(int32_t)sum * factor[0] + dtn_cm_half(sum);
    return (int8_t)dtn_dsp_half_s8(((int32_t)(product >> 32) >> factor[1]) + addend);
}

static inline void dtn_dsp_store_four(const uint32_t sums[4], const void *factors, int32_t addend, int8_t *out)
{
    for (size_t i = 0; i < 4; i++) {
        out[i] = dtn_dsp_output(sums[i], factors, i, addend);
    }
}

/* Adds the products of four elements of row x, or y, whose words these are. */
static inline uint32_t dtn_dsp_add_words(const uint32_t *words, uint32_t bytes, uint32_t sum)
{
    return dtn_dsp_both(words[1], dtn_dsp_odd(bytes), dtn_dsp_both(words[0], dtn_dsp_even(bytes), sum));
}

static inline void dtn_dsp_multiply_pairs(const uint32_t *inputs, const int8_t *weights, size_t depth, size_t left,
                                          const uint32_t *last, const uint32_t *end, const uint32_t *rest,
                                          size_t missing, const void *two, int8_t *x, int8_t *y, int32_t addend)
{
    const uint8_t *numbers = (const uint8_t *)two;
    for (; left != 0; left--) {
        for (size_t i = 0; i < 4; i++) { /* y first */
            const size_t channel = i % 2;
            const size_t row = i < 2 ? 1 : 0;
            const int8_t *w = weights + channel * depth;
            uint32_t sum;
            memcpy(&sum, numbers + channel * sizeof sum, sizeof sum);
            for (const uint32_t *words = inputs; words != end; words += 4) {
                sum = dtn_dsp_add_words(words + 2 * row, dtn_dsp_load(w), sum);
                w += 4;
            }
            if (missing != 0) {
                uint32_t bytes = dtn_dsp_load(w - missing) >> 8 * missing;
                sum = dtn_dsp_add_words(rest + 2 * row, bytes, sum);
            }
            (i < 2 ? y : x)[channel] = dtn_dsp_output(sum, numbers + 8, channel, addend);
        }
        numbers += 24;
        x += 2;
        y += 2;
        weights += 2 * depth;
    }
    (void)last;
}

static inline void dtn_dsp_multiply_fours(const uint32_t *inputs, const int8_t *weights, size_t depth, size_t left,
                                          const uint32_t *last, const uint32_t *end, const int32_t *bias,
                                          int8_t *output, int32_t addend, int32_t multiplier, int32_t shift)
{
    const int32_t factor[2] = {multiplier, shift};
    for (size_t i = 4 * left; i != 0; i--) {
        uint32_t sum = (uint32_t)*bias++;
        for (const uint32_t *words = inputs; words != end; words += 2) {
            sum = dtn_dsp_add_words(words, dtn_dsp_load(weights), sum);
            weights += 4;
        }
        *output++ = dtn_dsp_output(sum, factor, 0, addend);
    }
    (void)depth;
    (void)last;
}
