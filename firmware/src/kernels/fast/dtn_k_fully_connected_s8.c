#include "../check/check.h"
#include "block.h"

/* Adds the products of one row of inputs with four rows of weights, `count` apart, to sums[0..3]. */
static void dot_1x4(const int8_t *in, int32_t in_zp, const int8_t *weights, size_t count, uint32_t *sums)
{
    const int8_t *w1 = weights + count;
    const int8_t *w2 = weights + 2 * count;
    const int8_t *w3 = weights + 3 * count;
    uint32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    for (size_t k = 0; k < count; k++) {
        int16_t x = (int16_t)(in[k] - in_zp);
        s0 += (uint32_t)(x * (int16_t)weights[k]);
        s1 += (uint32_t)(x * (int16_t)w1[k]);
        s2 += (uint32_t)(x * (int16_t)w2[k]);
        s3 += (uint32_t)(x * (int16_t)w3[k]);
    }
    sums[0] += s0;
    sums[1] += s1;
    sums[2] += s2;
    sums[3] += s3;
}

static uint32_t dot(const int8_t *in, int32_t in_zp, const int8_t *weights, size_t count)
{
    uint32_t sum = 0;
    for (size_t k = 0; k < count; k++) {
        int16_t x = (int16_t)(in[k] - in_zp);
        sum += (uint32_t)(x * (int16_t)weights[k]);
    }
    return sum;
}

int32_t dtn_k_fully_connected_s8(const dtn_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return (int32_t)dtn_check_fully_connected_s8(call);
    }
    const dtn_operand_t *operands = call->operands;
    const dtn_fully_connected_s8_params_t *p = (const dtn_fully_connected_s8_params_t *)(const void *)call->params;
    const int8_t *in = (const int8_t *)operands[DTN_FULLY_CONNECTED_S8_INPUT].data;
    const int32_t *bias = (const int32_t *)(const void *)operands[DTN_FULLY_CONNECTED_S8_BIAS].data;
    const dtn_requant_row_t *rows =
        (const dtn_requant_row_t *)(const void *)operands[DTN_FULLY_CONNECTED_S8_REQUANT].data;
    int8_t *out = (int8_t *)operands[DTN_FULLY_CONNECTED_S8_OUTPUT].data;
    dtn_range_t range = {p->out_zp, p->act_min, p->act_max};
    size_t count = (size_t)p->in_features;
    dtn_block_t block;
    dtn_block_fill(&block, rows[0]);

    for (int32_t r = 0; r < p->rows; r++) {
        const int8_t *weights = (const int8_t *)operands[DTN_FULLY_CONNECTED_S8_WEIGHTS].data;
        for (int32_t first = 0; first < p->out_features; first += DTN_BLOCK) {
            int32_t n = dtn_block_size(p->out_features - first);
            uint32_t sums[DTN_BLOCK] = {0};
            int32_t j = 0;
            memcpy(sums, bias + first, (size_t)n * sizeof *sums);
            for (; j + 3 < n; j += 4, weights += 4 * count) {
                dot_1x4(in, p->in_zp, weights, count, sums + j);
            }
            for (; j < n; j++, weights += count) {
                sums[j] += dot(in, p->in_zp, weights, count);
            }
            if (p->requant_count != 1) {
                dtn_block_load(&block, rows + first, n);
            }
            dtn_block_store(sums, &block, range, out + first, n);
        }
        in += count;
        out += p->out_features;
    }
    return DTN_OK;
}
