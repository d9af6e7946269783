#include "../check/check.h"
#include "strided.h"

#include <string.h>

enum { RANK = sizeof((dtn_copy_s8_params_t *)0)->dims / sizeof(int32_t) };

int32_t dtn_k_copy_s8(const dtn_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return (int32_t)dtn_check_copy_s8(call);
    }
    const dtn_copy_s8_params_t *p = (const dtn_copy_s8_params_t *)(const void *)call->params;
    dtn_iterator_t iterator = dtn_iterator(p->dims, p->in_strides, p->out_strides, RANK);
    iterator.at[0] = (size_t)p->in_start;

    do {
        const uint8_t *in = call->operands[DTN_COPY_S8_INPUT].data;
        uint8_t *out = call->operands[DTN_COPY_S8_OUTPUT].data + iterator.at[1];
        if (iterator.step[0] == 1 && iterator.step[1] == 1) {
            memcpy(out, in + iterator.at[0], iterator.count);
            continue;
        }
        /* A step back is a huge unsigned number: its sum with the offset wraps round to where it belongs. */
        for (size_t i = 0; i < iterator.count; i++) {
            out[i * iterator.step[1]] = in[iterator.at[0] + i * iterator.step[0]];
        }
    } while (dtn_iterator_next(&iterator));
    return DTN_OK;
}
