#include "../check/check.h"
#include "block.h"
#include "strided.h"

enum { RANK = sizeof((dtn_mul_s8_params_t *)0)->dims / sizeof(int32_t) };

/* Products of one block; the output may be one of the inputs, so it is stored only after all of them are read. */
static inline void block_mul(const dtn_mul_s8_params_t *p, const dtn_block_t *block, const int8_t *a, size_t a_step,
                             const int8_t *b, size_t b_step, int8_t *out, int32_t n)
{
    uint32_t products[DTN_BLOCK] = {0};
    dtn_range_t range = {p->out_zp, p->act_min, p->act_max};
    for (size_t j = 0; j < (size_t)n; j++) {
        products[j] = (uint32_t)((a[j * a_step] - p->a_zp) * (b[j * b_step] - p->b_zp));
    }
    dtn_block_store(products, block, range, out, n);
}

int32_t dtn_k_mul_s8(const dtn_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return (int32_t)dtn_check_mul_s8(call);
    }
    const dtn_mul_s8_params_t *p = (const dtn_mul_s8_params_t *)(const void *)call->params;
    int8_t *out = (int8_t *)call->operands[DTN_MUL_S8_OUTPUT].data;
    dtn_requant_row_t row = {p->mult, p->shift};
    dtn_walk_t walk = dtn_walk(p->dims, p->a_strides, p->b_strides, RANK);
    dtn_block_t block;
    dtn_block_fill(&block, row);

    do {
        const int8_t *a = (const int8_t *)call->operands[DTN_MUL_S8_A].data + walk.at[0];
        const int8_t *b = (const int8_t *)call->operands[DTN_MUL_S8_B].data + walk.at[1];
        size_t i = 0;
        for (; walk.step[0] == 1 && walk.step[1] == 1 && i + DTN_BLOCK <= walk.count; i += DTN_BLOCK) {
            block_mul(p, &block, a + i, 1, b + i, 1, out + i, DTN_BLOCK);
        }
        for (; i < walk.count; i += DTN_BLOCK) {
            int32_t n = walk.count - i < DTN_BLOCK ? (int32_t)(walk.count - i) : DTN_BLOCK;
            block_mul(p, &block, a + i * walk.step[0], walk.step[0], b + i * walk.step[1], walk.step[1], out + i, n);
        }
        out += walk.count;
    } while (dtn_walk_next(&walk));
    return DTN_OK;
}
