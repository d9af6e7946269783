#include "../dot_product_s8.h"
#include "../inner_loops.h"
#include "loops_dsp.h"
#include "matmul_rows_dsp.h"
#include "row_sums_s8_dsp.h"
#include "scale_dsp.h"

/* A single row of one part, of whole fours and 16 elements or more, with one factor, as in nearly all linear layers. */
__attribute__((noinline)) static void short_row(const dtn_cm_product_t *p)
{
    uint32_t words[DTN_DSP_PART / 2];
    const dtn_cm_factor_t factor = dtn_cm_factor(&p->scale, 0);
    const int32_t addend = dtn_dsp_addend(&p->scale);
    const size_t depth = p->depth;
    const size_t whole = p->channels / 4 * 4;
    dtn_dsp_unpack(p->input, dtn_dsp_twice(p->input_offset), depth / 4, words, 2);
    if (whole != 0) {
        dtn_dsp_multiply_fours(words, p->weights, depth, whole / 4, words + depth / 16 * 8, words + depth / 2, p->bias,
                               p->output, addend, factor.multiplier, (int32_t)factor.drop);
    }
    for (size_t i = whole; i < p->channels; i += 2) {
        /* A single row is paired with itself. */
        const size_t next = i + 1 < p->channels ? 1 : 0;
        uint32_t sums[2] = {(uint32_t)p->bias[i], (uint32_t)p->bias[i + next]};
        dtn_dsp_add_two_rows(words, depth / 4, p->weights + i * depth, next * depth, sums);
        p->output[i] = dtn_dsp_scaled(addend, factor, sums[0]);
        p->output[i + next] = dtn_dsp_scaled(addend, factor, sums[1]);
    }
}

/* Any other row that is alone: it is unpacked, a part at a time, for many channels. */
static void long_row(const dtn_cm_product_t *p)
{
    uint32_t words[DTN_DSP_PART / 2];
    const dtn_cm_scale_t scale = p->scale; /* a copy, which no store to the output can change */
    const uint32_t start = weight_offset_term(p, p->input);
    const dtn_dsp_row_t row = {p->input, p->weights, p->depth, p->input_offset};
    for (size_t first = 0; first < p->channels; first += WAITING) {
        uint32_t sums[WAITING];
        size_t channels = dtn_dsp_min(p->channels - first, WAITING);
        for (size_t i = 0; i < channels; i++) {
            sums[i] = start + (p->bias == NULL ? 0U : (uint32_t)p->bias[first + i]);
        }
        dtn_dsp_add_row(&row, words, first, channels, sums);
        for (size_t i = 0; i < channels; i++) {
            dtn_cm_factor_t factor = dtn_cm_factor(&scale, first + i);
            p->output[first + i] = dtn_cm_scaled(&scale, &factor, sums[i]);
        }
    }
}

void dtn_cm_multiply(const dtn_cm_product_t *product)
{
    if (product->rows > 1) {
        all_rows(product);
    } else if (product->depth - 16 <= DTN_DSP_PART - 16 && product->depth % 4 == 0 && product->weight_offset == 0 &&
               product->bias != NULL && product->scale.step == 0 && dtn_dsp_is_plain(&product->scale, 1)) {
        short_row(product);
    } else {
        long_row(product);
    }
}
