#include "../check/check.h"
#include "block.h"

/* The sums of one row of x with `n` columns from `y` on: rows of y, each times one element of x, side by side. */
static void row_sums(const dtn_matmul_s8_params_t *p, const int8_t *x, const int8_t *y, int32_t n,
                     uint32_t *restrict sums)
{
    for (int32_t k = 0; k < p->depth; k++) {
        int16_t factor = (int16_t)(x[k] - p->x_zp);
        for (int32_t j = 0; j < n; j++) {
            sums[j] += (uint32_t)(factor * (int16_t)(y[j] - p->y_zp));
        }
        y += p->columns;
    }
}

int32_t dtn_k_matmul_s8(const dtn_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return (int32_t)dtn_check_matmul_s8(call);
    }
    const dtn_matmul_s8_params_t *p = (const dtn_matmul_s8_params_t *)(const void *)call->params;
    const int8_t *x = (const int8_t *)call->operands[DTN_MATMUL_S8_X].data;
    const int8_t *y = (const int8_t *)call->operands[DTN_MATMUL_S8_Y].data;
    int8_t *out = (int8_t *)call->operands[DTN_MATMUL_S8_OUTPUT].data;
    dtn_requant_row_t row = {p->mult, p->shift};
    dtn_range_t range = {p->out_zp, p->act_min, p->act_max};
    dtn_block_t block;
    dtn_block_fill(&block, row);

    for (int32_t b = 0; b < p->batches; b++) {
        for (int32_t r = 0; r < p->rows; r++) {
            for (int32_t c = 0; c < p->columns; c += DTN_CHUNK) {
                int32_t n = dtn_chunk_size((size_t)(p->columns - c));
                uint32_t sums[DTN_CHUNK] = {0};
                row_sums(p, x, y + c, n, sums);
                dtn_chunk_store(sums, &block, range, out + c, n);
            }
            x += p->depth;
            out += p->columns;
        }
        y += (size_t)p->depth * (size_t)p->columns;
    }
    return DTN_OK;
}
