#include "check.h"

dtn_reason_t dtn_check_extremum_s8(const dtn_call_t *call)
{
    const dtn_extremum_s8_params_t *p = (const dtn_extremum_s8_params_t *)(const void *)call->params;
    if (p->maximum < 0 || p->maximum > 1) {
        return DTN_REASON_PARAMETER;
    }
    return dtn_check_broadcast(call, p->dims, p->a_strides, p->b_strides);
}
