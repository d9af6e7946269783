#include "../check/check.h"
#include "block.h"
#include "strided.h"

enum { RANK = sizeof((dtn_add_s8_params_t *)0)->dims / sizeof(int32_t) };

/* Scaled sums of `n` elements that lie side by side in both inputs. */
static void sums_dense(const dtn_add_s8_params_t *p, const int8_t *a, const int8_t *b, int32_t n,
                       int64_t *restrict sums)
{
    for (int32_t j = 0; j < n; j++) {
        int64_t left = (int64_t)(a[j] - p->a_zp) * p->a_mult;
        int64_t right = (int64_t)(b[j] - p->b_zp) * p->b_mult;
        sums[j] = left + right;
    }
}

/* Scaled sums of `n` elements with any steps between them. */
static void sums_strided(const dtn_add_s8_params_t *p, const int8_t *a, size_t a_step, const int8_t *b, size_t b_step,
                         int32_t n, int64_t *restrict sums)
{
    for (int32_t j = 0; j < n; j++, a += a_step, b += b_step) {
        sums[j] = (int64_t)(*a - p->a_zp) * p->a_mult + (int64_t)(*b - p->b_zp) * p->b_mult;
    }
}

/* Rounds `n` sums and stores them. */
static void store(const dtn_add_s8_params_t *p, const int64_t *restrict sums, int32_t n, int8_t *restrict out)
{
    int32_t shift = p->shift;
    int64_t lo = p->act_min - p->out_zp;
    int64_t hi = p->act_max - p->out_zp;
    for (int32_t j = 0; j < n; j++) {
        int64_t value = dtn_rne_shift(sums[j], shift);
        value = value < lo ? lo : value;
        value = value > hi ? hi : value;
        out[j] = (int8_t)(value + p->out_zp);
    }
}

/* One run of the iterator. The output may be an input, so a chunk is stored only after all of it is read. */
static void run(const dtn_add_s8_params_t *p, const dtn_iterator_t *iterator, const int8_t *a, const int8_t *b,
                int8_t *out)
{
    int64_t sums[DTN_CHUNK];
    for (size_t i = 0; i < iterator->count; i += DTN_CHUNK) {
        int32_t n = dtn_chunk_size(iterator->count - i);
        if (iterator->step[0] == 1 && iterator->step[1] == 1) {
            sums_dense(p, a + i, b + i, n, sums);
        } else {
            sums_strided(p, a + i * iterator->step[0], iterator->step[0], b + i * iterator->step[1], iterator->step[1],
                         n, sums);
        }
        store(p, sums, n, out + i);
    }
}

int32_t dtn_k_add_s8(const dtn_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return (int32_t)dtn_check_add_s8(call);
    }
    const dtn_add_s8_params_t *p = (const dtn_add_s8_params_t *)(const void *)call->params;
    int8_t *out = (int8_t *)call->operands[DTN_ADD_S8_OUTPUT].data;
    dtn_iterator_t iterator = dtn_iterator(p->dims, p->a_strides, p->b_strides, RANK);

    do {
        const int8_t *a = (const int8_t *)call->operands[DTN_ADD_S8_A].data + iterator.at[0];
        const int8_t *b = (const int8_t *)call->operands[DTN_ADD_S8_B].data + iterator.at[1];
        run(p, &iterator, a, b, out);
        out += iterator.count;
    } while (dtn_iterator_next(&iterator));
    return DTN_OK;
}
