#include "../check/check.h"
#include "block.h"
#include "strided.h"

enum { RANK = sizeof((dtn_extremum_s8_params_t *)0)->dims / sizeof(int32_t) };

/*
 * Extrema of `n` elements that lie side by side in both inputs. Flipping all bits turns the order round, so one loop
 * does for maximum and minimum.
 */
static void extrema_dense(int8_t flip, const int8_t *a, const int8_t *b, int32_t n, int8_t *restrict extrema)
{
    for (int32_t j = 0; j < n; j++) {
        int8_t left = (int8_t)(a[j] ^ flip);
        int8_t right = (int8_t)(b[j] ^ flip);
        extrema[j] = (int8_t)((left > right ? left : right) ^ flip);
    }
}

/* Extrema of `n` elements with any steps between them. */
static void extrema_strided(int8_t flip, const int8_t *a, size_t a_step, const int8_t *b, size_t b_step, int32_t n,
                            int8_t *restrict extrema)
{
    for (int32_t j = 0; j < n; j++, a += a_step, b += b_step) {
        extrema[j] = (int8_t)(((*a ^ flip) > (*b ^ flip) ? *a : *b));
    }
}

/* One run of the iterator. The output may be an input, so a chunk is stored only after all of it is read. */
static void run(int8_t flip, const dtn_iterator_t *iterator, const int8_t *a, const int8_t *b, int8_t *out)
{
    int8_t extrema[DTN_CHUNK];
    for (size_t i = 0; i < iterator->count; i += DTN_CHUNK) {
        int32_t n = dtn_chunk_size(iterator->count - i);
        if (iterator->step[0] == 1 && iterator->step[1] == 1) {
            extrema_dense(flip, a + i, b + i, n, extrema);
        } else {
            extrema_strided(flip, a + i * iterator->step[0], iterator->step[0], b + i * iterator->step[1],
                            iterator->step[1], n, extrema);
        }
        memcpy(out + i, extrema, (size_t)n);
    }
}

int32_t dtn_k_extremum_s8(const dtn_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return (int32_t)dtn_check_extremum_s8(call);
    }
    const dtn_extremum_s8_params_t *p = (const dtn_extremum_s8_params_t *)(const void *)call->params;
    int8_t *out = (int8_t *)call->operands[DTN_EXTREMUM_S8_OUTPUT].data;
    dtn_iterator_t iterator = dtn_iterator(p->dims, p->a_strides, p->b_strides, RANK);

    do {
        const int8_t *a = (const int8_t *)call->operands[DTN_EXTREMUM_S8_A].data + iterator.at[0];
        const int8_t *b = (const int8_t *)call->operands[DTN_EXTREMUM_S8_B].data + iterator.at[1];
        run(p->maximum == 1 ? 0 : -1, &iterator, a, b, out);
        out += iterator.count;
    } while (dtn_iterator_next(&iterator));
    return DTN_OK;
}
