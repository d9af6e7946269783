#include "../check/check.h"
#include "block.h"

/* Adds `reduced` rows, `pitch` apart, of `n` elements each. */
static void column_sums(const int8_t *in, size_t pitch, int32_t reduced, int32_t in_zp, int32_t n,
                        uint32_t *restrict sums)
{
    for (int32_t r = 0; r < reduced; r++) {
        for (int32_t j = 0; j < n; j++) {
            sums[j] += (uint32_t)(in[j] - in_zp);
        }
        in += pitch;
    }
}

/* The sum of `reduced` elements side by side. */
static uint32_t row_sum(const int8_t *in, int32_t reduced, int32_t in_zp)
{
    uint32_t sum = 0;
    for (int32_t r = 0; r < reduced; r++) {
        sum += (uint32_t)(in[r] - in_zp);
    }
    return sum;
}

int32_t dtn_k_reduce_sum_s8(const dtn_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return (int32_t)dtn_check_reduce_sum_s8(call);
    }
    const dtn_reduce_sum_s8_params_t *p = (const dtn_reduce_sum_s8_params_t *)(const void *)call->params;
    const int8_t *in = (const int8_t *)call->operands[DTN_REDUCE_SUM_S8_INPUT].data;
    int8_t *out = (int8_t *)call->operands[DTN_REDUCE_SUM_S8_OUTPUT].data;
    dtn_quotient_t quotient = dtn_quotient(p->mult, (uint64_t)p->divisor << p->shift);
    dtn_range_t range = {p->out_zp, INT8_MIN, INT8_MAX};

    for (int32_t o = 0; o < p->outer; o++) {
        for (int32_t i = 0; i < p->inner; i += DTN_CHUNK) {
            int32_t n = dtn_chunk_size((size_t)(p->inner - i));
            uint32_t sums[DTN_CHUNK] = {0};
            if (p->inner == 1) {
                sums[0] = row_sum(in, p->reduced, p->in_zp);
            } else {
                column_sums(in + i, (size_t)p->inner, p->reduced, p->in_zp, n, sums);
            }
            dtn_chunk_store_means(sums, &quotient, range, out + i, n);
        }
        in += (size_t)p->reduced * (size_t)p->inner;
        out += p->inner;
    }
    return DTN_OK;
}
