#include "../check/check.h"
#include "../requant.h"

int32_t dtn_k_matmul_s8_ref(const dtn_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return (int32_t)dtn_check_matmul_s8(call);
    }
    const dtn_matmul_s8_params_t *p = (const dtn_matmul_s8_params_t *)(const void *)call->params;
    const int8_t *x = (const int8_t *)call->operands[DTN_MATMUL_S8_X].data;
    const int8_t *y = (const int8_t *)call->operands[DTN_MATMUL_S8_Y].data;
    int8_t *out = (int8_t *)call->operands[DTN_MATMUL_S8_OUTPUT].data;
    dtn_requant_row_t row = {p->mult, p->shift};

    for (int32_t b = 0; b < p->batches; b++) {
        for (int32_t r = 0; r < p->rows; r++) {
            for (int32_t c = 0; c < p->columns; c++) {
                int32_t sum = 0;
                for (int32_t k = 0; k < p->depth; k++) {
                    sum += (x[k] - p->x_zp) * (y[(size_t)k * (size_t)p->columns + (size_t)c] - p->y_zp);
                }
                *out++ = dtn_requant_s8(sum, row, p->out_zp, p->act_min, p->act_max);
            }
            x += p->depth;
        }
        y += (size_t)p->depth * (size_t)p->columns;
    }
    return DTN_OK;
}
