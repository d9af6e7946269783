#include "../check/check.h"
#include "../window.h"
#include "block.h"

/* Numbers that are constant during a call. */
typedef struct {
    const dtn_depthwise_conv2d_s8_params_t *p;
    const int8_t *weights;
    const int32_t *bias;
    const dtn_requant_row_t *rows;
    dtn_range_t range;
} depthwise_t;

/* One tap: sums[j] += value * weight; |value| <= 255 and |weight| <= 128, so that the product fits 16 bits. */
static void tap(uint32_t *restrict sums, const int8_t *restrict in, const int8_t *restrict weights, int32_t in_zp,
                int32_t n)
{
    for (int32_t j = 0; j < n; j++) {
        int16_t value = (int16_t)(in[j] - in_zp);
        int32_t product = (int16_t)(value * weights[j]);
        sums[j] += (uint32_t)product;
    }
}

/* As above, each input channel serving `multiplier` output channels; `first` is the first output channel. */
static void tap_multiplied(uint32_t *restrict sums, const int8_t *restrict pixel, const int8_t *restrict weights,
                           int32_t in_zp, int32_t first, int32_t multiplier, int32_t n)
{
    for (int32_t j = 0; j < n; j++) {
        sums[j] += (uint32_t)((pixel[(first + j) / multiplier] - in_zp) * weights[j]);
    }
}

/* Adds channels first..first+n-1 of one output pixel to `sums`. */
static void pixel_sums(const depthwise_t *dw, const int8_t *image, dtn_window_t rows, dtn_window_t columns,
                       int32_t first, int32_t n, uint32_t *sums)
{
    const dtn_depthwise_conv2d_s8_params_t *p = dw->p;
    for (int32_t ky = rows.first; ky < rows.end; ky++) {
        size_t y = (size_t)(rows.start + (int64_t)ky * p->dilation_h);
        for (int32_t kx = columns.first; kx < columns.end; kx++) {
            size_t x = (size_t)(columns.start + (int64_t)kx * p->dilation_w);
            const int8_t *pixel = image + (y * (size_t)p->in_w + x) * (size_t)p->in_c;
            const int8_t *weights =
                dw->weights + ((size_t)ky * (size_t)p->kernel_w + (size_t)kx) * (size_t)p->out_c + first;
            if (p->multiplier == 1) {
                tap(sums, pixel + first, weights, p->in_zp, n);
            } else {
                tap_multiplied(sums, pixel, weights, p->in_zp, first, p->multiplier, n);
            }
        }
    }
}

/* Channels first..first+n-1 of one row of output pixels. */
static void row_run(const depthwise_t *dw, const int8_t *image, dtn_window_t rows, int32_t first, int32_t n,
                    int8_t *out)
{
    const dtn_depthwise_conv2d_s8_params_t *p = dw->p;
    dtn_block_t blocks[DTN_CHUNK / DTN_BLOCK];
    uint32_t sums[DTN_CHUNK] = {0};
    for (int32_t c = 0; c < n; c += DTN_BLOCK) {
        if (p->requant_count == 1) {
            dtn_block_fill(&blocks[c / DTN_BLOCK], dw->rows[0]);
        } else {
            dtn_block_load(&blocks[c / DTN_BLOCK], dw->rows + first + c, dtn_block_size(n - c));
        }
    }
    for (int32_t ox = 0; ox < p->out_w; ox++) {
        dtn_window_t columns = dtn_window(ox, p->stride_w, p->pad_left, p->kernel_w, p->dilation_w, p->in_w);
        int8_t *to = out + (size_t)ox * (size_t)p->out_c + first;
        memcpy(sums, dw->bias + first, (size_t)n * sizeof *sums);
        pixel_sums(dw, image, rows, columns, first, n, sums);
        for (int32_t c = 0; c < n; c += DTN_BLOCK) {
            dtn_block_store(sums + c, &blocks[c / DTN_BLOCK], dw->range, to + c, dtn_block_size(n - c));
        }
    }
}

int32_t dtn_k_depthwise_conv2d_s8(const dtn_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return (int32_t)dtn_check_depthwise_conv2d_s8(call);
    }
    const dtn_operand_t *operands = call->operands;
    const dtn_depthwise_conv2d_s8_params_t *p = (const dtn_depthwise_conv2d_s8_params_t *)(const void *)call->params;
    depthwise_t dw = {
        .p = p,
        .weights = (const int8_t *)operands[DTN_DEPTHWISE_CONV2D_S8_WEIGHTS].data,
        .bias = (const int32_t *)(const void *)operands[DTN_DEPTHWISE_CONV2D_S8_BIAS].data,
        .rows = (const dtn_requant_row_t *)(const void *)operands[DTN_DEPTHWISE_CONV2D_S8_REQUANT].data,
        .range = {p->out_zp, p->act_min, p->act_max},
    };
    const int8_t *image = (const int8_t *)operands[DTN_DEPTHWISE_CONV2D_S8_INPUT].data;
    int8_t *out = (int8_t *)operands[DTN_DEPTHWISE_CONV2D_S8_OUTPUT].data;

    for (int32_t b = 0; b < p->batches; b++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            dtn_window_t rows = dtn_window(oy, p->stride_h, p->pad_top, p->kernel_h, p->dilation_h, p->in_h);
            for (int32_t c = 0; c < p->out_c; c += DTN_CHUNK) {
                row_run(&dw, image, rows, c, dtn_chunk_size((size_t)(p->out_c - c)), out);
            }
            out += (size_t)p->out_w * (size_t)p->out_c;
        }
        image += (size_t)p->in_h * (size_t)p->in_w * (size_t)p->in_c;
    }
    return DTN_OK;
}
