#include "../check/check.h"
#include "block.h"

/*
 * The largest of `reduced` rows, `pitch` apart, of `n` elements each. Flipping all bits turns the order round, so one
 * loop does for maximum and minimum.
 */
static void column_extrema(const int8_t *in, size_t pitch, int32_t reduced, int8_t flip, int32_t n,
                           int8_t *restrict extrema)
{
    for (int32_t r = 0; r < reduced; r++) {
        for (int32_t j = 0; j < n; j++) {
            int8_t value = (int8_t)(in[j] ^ flip);
            extrema[j] = value > extrema[j] ? value : extrema[j];
        }
        in += pitch;
    }
}

/* The largest of `reduced` elements side by side. */
static int8_t row_extremum(const int8_t *in, int32_t reduced, int8_t flip)
{
    int8_t extremum = INT8_MIN;
    for (int32_t r = 0; r < reduced; r++) {
        int8_t value = (int8_t)(in[r] ^ flip);
        extremum = value > extremum ? value : extremum;
    }
    return extremum;
}

int32_t dtn_k_reduce_extremum_s8(const dtn_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return (int32_t)dtn_check_reduce_extremum_s8(call);
    }
    const dtn_reduce_extremum_s8_params_t *p = (const dtn_reduce_extremum_s8_params_t *)(const void *)call->params;
    const int8_t *in = (const int8_t *)call->operands[DTN_REDUCE_EXTREMUM_S8_INPUT].data;
    int8_t *out = (int8_t *)call->operands[DTN_REDUCE_EXTREMUM_S8_OUTPUT].data;
    int8_t flip = p->maximum == 1 ? 0 : -1;

    for (int32_t o = 0; o < p->outer; o++) {
        for (int32_t i = 0; i < p->inner; i += DTN_CHUNK) {
            int32_t n = dtn_chunk_size((size_t)(p->inner - i));
            int8_t extrema[DTN_CHUNK];
            memset(extrema, INT8_MIN, sizeof extrema);
            if (p->inner == 1) {
                extrema[0] = row_extremum(in, p->reduced, flip);
            } else {
                column_extrema(in + i, (size_t)p->inner, p->reduced, flip, n, extrema);
            }
            for (int32_t j = 0; j < n; j++) {
                out[i + j] = (int8_t)(extrema[j] ^ flip);
            }
        }
        in += (size_t)p->reduced * (size_t)p->inner;
        out += p->inner;
    }
    return DTN_OK;
}
