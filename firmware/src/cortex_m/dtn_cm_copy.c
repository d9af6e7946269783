#include <stddef.h>

#include "../kernels/check/check.h"
#include "../kernels/fast/strided.h"
#include "cortex_m.h"
#include "element_loops.h"
#include "npu_kernel_call.h"

typedef dtn_cm_copy_params_t params_t;

/* After its first word the record is the kernel's. */
typedef char record_continues_with_the_kernels
    [sizeof(params_t) - offsetof(params_t, in_start) == sizeof(dtn_copy_s8_params_t) ? 1 : -1];

enum { RANK = sizeof((params_t *)0)->dims / sizeof(int32_t) };

static int32_t check(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 1, 1, params_t) || !dtn_cm_are(call->values, 2, call->values[0].type)) {
        return DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    if (p->out_start < 0 || (uint32_t)p->out_start >= call->values[1].bytes) {
        return DTN_REASON_OPERATOR;
    }
    dtn_operator_call_t region = *call;
    region.values[1].bytes -= (uint32_t)p->out_start;
    dtn_call_t inner = dtn_cm_kernel_call(&region, DTN_PHASE_CHECK, &p->in_start);
    return dtn_cm_reason((int32_t)dtn_check_copy_s8(&inner));
}

/* True for one row of bytes, which needs no iterator; the dimensions are positive. */
static bool is_one_row(const params_t *p)
{
    int32_t outer = 1;
    for (size_t i = 0; i < RANK - 1; i++) {
        outer |= p->dims[i];
    }
    return outer == 1;
}

static void run(const dtn_operator_call_t *call)
{
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const uint8_t *in = (const uint8_t *)call->values[0].data + p->in_start;
    uint8_t *out = (uint8_t *)call->values[1].data + p->out_start;
    if (is_one_row(p)) {
        dtn_cm_strided_copy(in, (size_t)p->in_strides[RANK - 1], out, (size_t)p->out_strides[RANK - 1],
                            (size_t)p->dims[RANK - 1]);
        return;
    }
    dtn_iterator_t iterator = dtn_iterator(p->dims, p->in_strides, p->out_strides, RANK);
    do {
        dtn_cm_strided_copy(in + iterator.at[0], iterator.step[0], out + iterator.at[1], iterator.step[1],
                            iterator.count);
    } while (dtn_iterator_next(&iterator));
}

int32_t dtn_cm_copy(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return check(call);
    }
    run(call);
    return DTN_OK;
}
