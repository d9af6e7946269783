#include "../check/check.h"
#include "block.h"
#include "strided.h"

enum { RANK = sizeof((dtn_mul_s8_params_t *)0)->dims / sizeof(int32_t) };

/* Products of `n` elements that lie side by side in both inputs. */
static void products_dense(const dtn_mul_s8_params_t *p, const int8_t *a, const int8_t *b, int32_t n,
                           uint32_t *restrict products)
{
    for (int32_t j = 0; j < n; j++) {
        products[j] = (uint32_t)((a[j] - p->a_zp) * (b[j] - p->b_zp));
    }
}

/* Products of `n` elements with any steps between them. */
static void products_strided(const dtn_mul_s8_params_t *p, const int8_t *a, size_t a_step, const int8_t *b,
                             size_t b_step, int32_t n, uint32_t *restrict products)
{
    for (int32_t j = 0; j < n; j++, a += a_step, b += b_step) {
        products[j] = (uint32_t)((*a - p->a_zp) * (*b - p->b_zp));
    }
}

/* One run of the iterator. The output may be an input, so a chunk is stored only after all of it is read. */
static void run(const dtn_mul_s8_params_t *p, const dtn_iterator_t *iterator, const int8_t *a, const int8_t *b,
                int8_t *out)
{
    dtn_requant_row_t row = {p->mult, p->shift};
    dtn_range_t range = {p->out_zp, p->act_min, p->act_max};
    uint32_t products[DTN_CHUNK] = {0};
    dtn_block_t block;
    dtn_block_fill(&block, row);
    for (size_t i = 0; i < iterator->count; i += DTN_CHUNK) {
        int32_t n = dtn_chunk_size(iterator->count - i);
        if (iterator->step[0] == 1 && iterator->step[1] == 1) {
            products_dense(p, a + i, b + i, n, products);
        } else {
            products_strided(p, a + i * iterator->step[0], iterator->step[0], b + i * iterator->step[1],
                             iterator->step[1], n, products);
        }
        dtn_chunk_store(products, &block, range, out + i, n);
    }
}

int32_t dtn_k_mul_s8(const dtn_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return (int32_t)dtn_check_mul_s8(call);
    }
    const dtn_mul_s8_params_t *p = (const dtn_mul_s8_params_t *)(const void *)call->params;
    int8_t *out = (int8_t *)call->operands[DTN_MUL_S8_OUTPUT].data;
    dtn_iterator_t iterator = dtn_iterator(p->dims, p->a_strides, p->b_strides, RANK);

    do {
        const int8_t *a = (const int8_t *)call->operands[DTN_MUL_S8_A].data + iterator.at[0];
        const int8_t *b = (const int8_t *)call->operands[DTN_MUL_S8_B].data + iterator.at[1];
        run(p, &iterator, a, b, out);
        out += iterator.count;
    } while (dtn_iterator_next(&iterator));
    return DTN_OK;
}
