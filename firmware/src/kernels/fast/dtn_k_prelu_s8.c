#include "../check/check.h"
#include "block.h"
#include "strided.h"

enum { RANK = sizeof((dtn_prelu_s8_params_t *)0)->dims / sizeof(int32_t) };

/* `n` elements with any steps between them: the inputs less their zero point, and their products with alpha. */
static void load(const dtn_prelu_s8_params_t *p, const int8_t *a, size_t a_step, const int8_t *b, size_t b_step,
                 int32_t n, uint32_t *restrict inputs, uint32_t *restrict products)
{
    for (int32_t j = 0; j < n; j++, a += a_step, b += b_step) {
        int32_t x = *a - p->a_zp;
        inputs[j] = (uint32_t)x;
        products[j] = (uint32_t)(x * (*b - p->b_zp));
    }
}

/* One run of the iterator. The output may be an input, so a chunk is stored only after all of it is read. */
static void run(const dtn_prelu_s8_params_t *p, const dtn_iterator_t *iterator, const int8_t *a, const int8_t *b,
                int8_t *out)
{
    dtn_requant_row_t rows[2] = {{p->mult, p->shift}, {p->alpha_mult, p->alpha_shift}};
    dtn_range_t range = {p->out_zp, INT8_MIN, INT8_MAX};
    uint32_t inputs[DTN_CHUNK] = {0};
    uint32_t products[DTN_CHUNK] = {0};
    int8_t above[DTN_CHUNK];
    int8_t below[DTN_CHUNK];
    dtn_block_t blocks[2];
    dtn_block_fill(&blocks[0], rows[0]);
    dtn_block_fill(&blocks[1], rows[1]);
    for (size_t i = 0; i < iterator->count; i += DTN_CHUNK) {
        int32_t n = dtn_chunk_size(iterator->count - i);
        load(p, a + i * iterator->step[0], iterator->step[0], b + i * iterator->step[1], iterator->step[1], n, inputs,
             products);
        dtn_chunk_store(inputs, &blocks[0], range, above, n);
        dtn_chunk_store(products, &blocks[1], range, below, n);
        for (int32_t j = 0; j < n; j++) {
            out[i + (size_t)j] = dtn_as_signed(inputs[j]) >= 0 ? above[j] : below[j];
        }
    }
}

int32_t dtn_k_prelu_s8(const dtn_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return (int32_t)dtn_check_prelu_s8(call);
    }
    const dtn_prelu_s8_params_t *p = (const dtn_prelu_s8_params_t *)(const void *)call->params;
    int8_t *out = (int8_t *)call->operands[DTN_PRELU_S8_OUTPUT].data;
    dtn_iterator_t iterator = dtn_iterator(p->dims, p->a_strides, p->b_strides, RANK);

    do {
        const int8_t *a = (const int8_t *)call->operands[DTN_PRELU_S8_A].data + iterator.at[0];
        const int8_t *b = (const int8_t *)call->operands[DTN_PRELU_S8_B].data + iterator.at[1];
        run(p, &iterator, a, b, out);
        out += iterator.count;
    } while (dtn_iterator_next(&iterator));
    return DTN_OK;
}
