/**
 * @file
 * Two rows of a product or more, two at a time. A file that includes this may give names of other functions to blocks
 * of channels, so that weights have another form.
 */
#pragma once

#include "../inner_loops.h"
#include "matmul_row_pairs_s8_dsp.h"
#include "row_sums_s8_dsp.h"

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
