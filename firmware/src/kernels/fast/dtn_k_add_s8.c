#include "../check/check.h"
#include "block.h"
#include "strided.h"

enum { RANK = sizeof((dtn_add_s8_params_t *)0)->dims / sizeof(int32_t) };

/* Sums of one block; the output may be one of the inputs, so it is stored only after all of them are read. */
static inline void block_add(const dtn_add_s8_params_t *p, const int8_t *a, size_t a_step, const int8_t *b,
                             size_t b_step, int8_t *out, size_t n)
{
    int64_t sums[DTN_BLOCK];
    int8_t narrow[DTN_BLOCK];
    int32_t shift = p->shift;
    for (size_t j = 0; j < n; j++) {
        int64_t left = (int64_t)(a[j * a_step] - p->a_zp) * p->a_mult;
        int64_t right = (int64_t)(b[j * b_step] - p->b_zp) * p->b_mult;
        sums[j] = dtn_rne_shift(left + right, shift);
    }
    for (size_t j = 0; j < n; j++) {
        narrow[j] = dtn_clamp_s8(p->out_zp + sums[j], p->act_min, p->act_max);
    }
    memcpy(out, narrow, n);
}

int32_t dtn_k_add_s8(const dtn_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return (int32_t)dtn_check_add_s8(call);
    }
    const dtn_add_s8_params_t *p = (const dtn_add_s8_params_t *)(const void *)call->params;
    int8_t *out = (int8_t *)call->operands[DTN_ADD_S8_OUTPUT].data;
    dtn_walk_t walk = dtn_walk(p->dims, p->a_strides, p->b_strides, RANK);

    do {
        const int8_t *a = (const int8_t *)call->operands[DTN_ADD_S8_A].data + walk.at[0];
        const int8_t *b = (const int8_t *)call->operands[DTN_ADD_S8_B].data + walk.at[1];
        size_t i = 0;
        for (; walk.step[0] == 1 && walk.step[1] == 1 && i + DTN_BLOCK <= walk.count; i += DTN_BLOCK) {
            block_add(p, a + i, 1, b + i, 1, out + i, DTN_BLOCK);
        }
        for (; i < walk.count; i += DTN_BLOCK) {
            size_t n = walk.count - i < DTN_BLOCK ? walk.count - i : DTN_BLOCK;
            block_add(p, a + i * walk.step[0], walk.step[0], b + i * walk.step[1], walk.step[1], out + i, n);
        }
        out += walk.count;
    } while (dtn_walk_next(&walk));
    return DTN_OK;
}
