#include "maximum_minimum.h"

#include "../kernels/check/check.h"
#include "../kernels/fast/strided.h"
#include "cortex_m.h"
#include "element_loops.h"
#include "npu_kernel_call.h"

typedef dtn_extremum_s8_params_t params_t;

enum { RANK = sizeof((params_t *)0)->dims / sizeof(int32_t) };

static int32_t check(const dtn_operator_call_t *call, int32_t maximum)
{
    if (!DTN_CM_IS_CALL(call, 2, 1, params_t) || !dtn_cm_are(call->values, 3, DTN_TYPE_S8) ||
        DTN_CM_PARAMS(call, params_t)->maximum != maximum) {
        return DTN_REASON_OPERATOR;
    }
    dtn_call_t inner = dtn_cm_kernel_call(call, DTN_PHASE_CHECK, call->params);
    return dtn_cm_reason((int32_t)dtn_check_extremum_s8(&inner));
}

static void run(const dtn_operator_call_t *call)
{
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    /* Flipping all bits turns the order round. */
    int8_t flip = p->maximum == 1 ? 0 : -1;
    int8_t *out = (int8_t *)call->values[2].data;
    dtn_iterator_t iterator = dtn_iterator(p->dims, p->a_strides, p->b_strides, RANK);
    do {
        const int8_t *a = (const int8_t *)call->values[0].data + iterator.at[0];
        const int8_t *b = (const int8_t *)call->values[1].data + iterator.at[1];
        if (iterator.step[0] == 1 && iterator.step[1] == 1) {
            dtn_cm_extremum_elements(flip, a, b, out, iterator.count);
        } else {
            for (size_t i = 0; i < iterator.count; i++, a += iterator.step[0], b += iterator.step[1]) {
                out[i] = (*a ^ flip) > (*b ^ flip) ? *a : *b;
            }
        }
        out += iterator.count;
    } while (dtn_iterator_next(&iterator));
}

int32_t dtn_cm_extremum(const dtn_operator_call_t *call, dtn_phase_t phase, int32_t maximum)
{
    if (phase == DTN_PHASE_CHECK) {
        return check(call, maximum);
    }
    run(call);
    return DTN_OK;
}
