#include "../inner_loops.h"
#include "loops_s4_dsp.h"
#include "matmul_row_pairs_s4_dsp.h"
#include "scale_dsp.h"

#define dtn_dsp_make_block dtn_dsp_make_block_s4
#define dtn_dsp_add_pair dtn_dsp_add_pair_s4
#define dtn_dsp_store_pair dtn_dsp_store_pair_s4
#define dtn_dsp_multiply_pair dtn_dsp_multiply_pair_s4

#include "matmul_rows_dsp.h"

/* Adds the products of four inputs, unpacked to two words, with four bytes of a packed row, to its sums a and b. */
static inline void add_four(const uint32_t *words, const int8_t *packed, uint32_t *a, uint32_t *b)
{
    const uint32_t bytes = dtn_dsp_load(packed);
    const uint32_t first = bytes << 4 & UINT32_C(0xF0F0F0F0);
    *b = dtn_dsp_both(words[1], dtn_dsp_odd(bytes), *b);
    *b = dtn_dsp_both(words[0], dtn_dsp_even(bytes), *b);
    *a = dtn_dsp_both(words[1], dtn_dsp_odd(first), *a);
    *a = dtn_dsp_both(words[0], dtn_dsp_even(first), *a);
}

/* The same for fours of two packed rows, which may be the same. The loop of a separate function has all registers. */
__attribute__((noinline)) static void add_fours(const uint32_t *words, size_t fours, const int8_t *w, const int8_t *v,
                                                uint32_t sums[4])
{
    uint32_t a = sums[0];
    uint32_t b = sums[1];
    uint32_t c = sums[2];
    uint32_t d = sums[3];
    for (; fours != 0; fours--) {
        add_four(words, w, &a, &b);
        add_four(words, v, &c, &d);
        words += 2;
        w += 4;
        v += 4;
    }
    sums[0] = a;
    sums[1] = b;
    sums[2] = c;
    sums[3] = d;
}

/* The sums of four channels from `channel` on, with the bias; of fewer there are some that mean nothing. */
static void four_sums(const dtn_cm_product_t *p, const uint32_t *words, size_t channel, size_t fours, size_t at,
                      uint32_t sums[4])
{
    const int8_t *w = p->weights + channel / DTN_CM_PACKED * p->depth + at;
    add_fours(words, fours, w, channel + DTN_CM_PACKED < p->channels ? w + p->depth : w, sums);
}

/* Adds the products of up to three inputs, from element `at` on, to the sums of a packed row. */
static void add_rest(const dtn_cm_product_t *p, size_t at, size_t channel, uint32_t sums[DTN_CM_PACKED])
{
    const int8_t *packed = p->weights + channel / DTN_CM_PACKED * p->depth;
    for (size_t k = at; k < p->depth; k++) {
        sums[0] += (uint32_t)(p->input[k] * 16 * dtn_cm_first_weight(packed[k]));
        sums[1] += (uint32_t)(p->input[k] * packed[k]);
    }
}

/* Scales and stores channels from their sums a and b. */
static void store(const dtn_cm_product_t *p, const dtn_cm_scale_t *scale, size_t channel, size_t count, uint32_t *sums)
{
    for (size_t i = 0; i < count; i += DTN_CM_PACKED) {
        sums[i + 1] = dtn_cm_second_sum(sums[i], sums[i + 1]);
        sums[i] = dtn_cm_first_sum(sums[i]);
    }
    for (size_t i = 0; i < count; i++) {
        dtn_cm_factor_t factor = dtn_cm_factor(scale, channel + i);
        p->output[channel + i] = dtn_cm_scaled(scale, &factor, sums[i] + (uint32_t)p->bias[channel + i]);
    }
}

/* A single row of one part, of whole fours and 16 elements or more, with one factor, as in nearly all linear layers. */
__attribute__((noinline)) static void short_row(const dtn_cm_product_t *p)
{
    uint32_t words[DTN_DSP_PART / 2];
    const dtn_cm_factor_t factor = dtn_cm_factor(&p->scale, 0);
    const int32_t addend = dtn_dsp_addend(&p->scale);
    const size_t depth = p->depth;
    const size_t whole = p->channels / 4 * 4;
    dtn_dsp_unpack(p->input, 0, depth / 4, words, 2);
    if (whole != 0) {
        dtn_dsp_multiply_fours_s4(words, p->weights, depth, whole / 4, words + depth / 16 * 8, words + depth / 2,
                                  p->bias, p->output, addend, factor.multiplier, (int32_t)factor.drop);
    }
    for (size_t i = whole; i < p->channels; i += DTN_CM_PACKED) {
        const int8_t *packed = p->weights + i / DTN_CM_PACKED * depth;
        uint32_t a = 0;
        uint32_t b = 0;
        for (size_t k = 0; k < depth; k += 4) {
            add_four(words + k / 2, packed + k, &a, &b);
        }
        p->output[i] = dtn_dsp_scaled(addend, factor, dtn_cm_first_sum(a) + (uint32_t)p->bias[i]);
        if (i + 1 < p->channels) {
            p->output[i + 1] = dtn_dsp_scaled(addend, factor, dtn_cm_second_sum(a, b) + (uint32_t)p->bias[i + 1]);
        }
    }
}

/* Any other row that is alone: it is unpacked, a part at a time, for many channels. */
static void long_row(const dtn_cm_product_t *p)
{
    uint32_t words[DTN_DSP_PART / 2];
    const dtn_cm_scale_t scale = p->scale; /* a copy, which no store to the output can change */
    for (size_t first = 0; first < p->channels; first += WAITING) {
        uint32_t sums[WAITING] = {0};
        const size_t channels = dtn_dsp_min(p->channels - first, WAITING);
        for (size_t at = 0; at < p->depth; at += DTN_DSP_PART) {
            const size_t fours = dtn_dsp_min(p->depth - at, DTN_DSP_PART) / 4;
            dtn_dsp_unpack(p->input + at, 0, fours, words, 2);
            for (size_t i = 0; i < channels; i += 4) {
                four_sums(p, words, first + i, fours, at, &sums[i]);
            }
        }
        for (size_t i = 0; i < channels; i += DTN_CM_PACKED) {
            add_rest(p, p->depth / 4 * 4, first + i, &sums[i]);
        }
        store(p, &scale, first, channels, sums);
    }
}

void dtn_cm_multiply_s4(const dtn_cm_product_t *product)
{
    if (product->rows > 1) {
        all_rows(product);
    } else if (product->depth - 16 <= DTN_DSP_PART - 16 && product->depth % 4 == 0 && product->scale.step == 0 &&
               dtn_dsp_is_plain(&product->scale, 1)) {
        short_row(product);
    } else {
        long_row(product);
    }
}
