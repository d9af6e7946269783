#include "../dot_product_s8.h"
#include "../inner_loops.h"
#include "loops_dsp.h"
#include "matmul_row_pairs_s8_dsp.h"
#include "row_sums_s8_dsp.h"
#include "scale_dsp.h"

/* Elements of two rows that are unpacked on the stack. So many channels keep their sums until the next part, so that
 * each part of the rows is unpacked once for all of them. */
enum { PART = 128, WAITING = DTN_CM_ROW_SUMS };

/* The term of the weights' offset, which every channel of a row adds. */
static uint32_t weight_offset_term(const dtn_cm_product_t *p, const int8_t *row)
{
    if (p->weight_offset == 0) {
        return 0;
    }
    int32_t sum = (int32_t)p->depth * p->input_offset;
    for (size_t k = 0; k < p->depth; k++) {
        sum += row[k];
    }
    return (uint32_t)(sum * p->weight_offset);
}

static dtn_dsp_pair_t unpack_part(const dtn_cm_product_t *p, const int8_t *x, const int8_t *y, size_t count,
                                  dtn_dsp_quad_t *quads)
{
    dtn_dsp_pair_t pair = {.quads = quads, .count = count / 4, .rest_count = count % 4};
    uint32_t offsets = dtn_dsp_twice(p->input_offset);
    dtn_dsp_unpack(x, offsets, pair.count, quads->x, DTN_DSP_QUAD);
    dtn_dsp_unpack(y, offsets, pair.count, quads->y, DTN_DSP_QUAD);
    if (pair.rest_count != 0) {
        size_t at = count - pair.rest_count;
        dtn_dsp_unpack_rest(x + at, p->input_offset, pair.rest_count, pair.rest.x);
        dtn_dsp_unpack_rest(y + at, p->input_offset, pair.rest_count, pair.rest.y);
    }
    return pair;
}

/* Two rows of the input, which may be the same, and their outputs. */
typedef struct {
    const int8_t *x;
    const int8_t *y;
    int8_t *x_output;
    int8_t *y_output;
} rows_t;

/* A block of two rows, in parts, with the terms of the weights' offset. */
static void in_parts(const dtn_cm_product_t *p, const dtn_dsp_block_t *block, const rows_t *rows, dtn_dsp_quad_t *quads)
{
    uint32_t x = weight_offset_term(p, rows->x);
    uint32_t y = weight_offset_term(p, rows->y);
    dtn_dsp_sums_t sums[WAITING / 2];
    for (size_t i = 0; i < WAITING / 2; i++) {
        sums[i] = (dtn_dsp_sums_t){x, x, y, y};
    }
    for (size_t at = 0; at < p->depth; at += PART) {
        dtn_dsp_pair_t pair = unpack_part(p, rows->x + at, rows->y + at, dtn_dsp_min(p->depth - at, PART), quads);
        dtn_dsp_add_pair(block, &pair, at, sums);
    }
    dtn_dsp_store_pair(block, sums, rows->x_output, rows->y_output);
}

/* Two rows at a time, by blocks of channels. */
static void all_rows(const dtn_cm_product_t *p)
{
    dtn_dsp_quad_t quads[PART / 4];
    dtn_dsp_block_t block;
    bool is_simple = p->depth <= PART && p->weight_offset == 0;
    size_t most = is_simple ? DTN_DSP_CHANNELS : WAITING;
    for (size_t first = 0; first < p->channels; first += most) {
        dtn_dsp_make_block(&block, p->weights, p->depth, p->bias, &p->scale, first,
                           dtn_dsp_min(p->channels - first, most));
        for (size_t row = 0; row < p->rows; row += 2) {
            size_t other = dtn_dsp_min(row + 1, p->rows - 1);
            rows_t rows = {
                p->input + row * p->input_pitch,
                p->input + other * p->input_pitch,
                p->output + first + row * p->output_pitch,
                p->output + first + other * p->output_pitch,
            };
            if (is_simple) {
                dtn_dsp_pair_t pair = unpack_part(p, rows.x, rows.y, p->depth, quads);
                dtn_dsp_multiply_pair(&block, &pair, rows.x_output, rows.y_output);
            } else {
                in_parts(p, &block, &rows, quads);
            }
        }
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
