#include "check.h"

enum { RANK = sizeof((dtn_copy_s8_params_t *)0)->dims / sizeof(int32_t) };

/*
 * True if no two elements share an output byte: by ascending stride, each dimension must step over all bytes of the
 * dimensions before it. Strides fit 31 bits and dimensions 17, so the sum of six spans fits 64.
 */
static bool writes_once(const int32_t *dims, const int32_t *strides)
{
    uint64_t covered = 0;
    uint32_t taken = 0;
    for (size_t n = 0; n < RANK; n++) {
        size_t least = RANK;
        for (size_t i = 0; i < RANK; i++) {
            if ((taken & (1U << i)) == 0 && (least == RANK || strides[i] < strides[least])) {
                least = i;
            }
        }
        taken |= 1U << least;
        if (dims[least] == 1) {
            continue;
        }
        if ((uint64_t)strides[least] <= covered) {
            return false;
        }
        covered += (uint64_t)(dims[least] - 1) * (uint64_t)strides[least];
    }
    return true;
}

dtn_reason_t dtn_check_copy_s8(const dtn_call_t *call)
{
    const dtn_copy_s8_params_t *p = (const dtn_copy_s8_params_t *)(const void *)call->params;
    if (!dtn_are_dimensions(p->dims, RANK) || p->in_start < 0 || !dtn_are_forward(p->out_strides, RANK)) {
        return DTN_REASON_PARAMETER;
    }
    if (!dtn_is_reach_inside(&call->operands[DTN_COPY_S8_INPUT], p->in_start, p->dims, p->in_strides, RANK) ||
        !dtn_is_reach_inside(&call->operands[DTN_COPY_S8_OUTPUT], 0, p->dims, p->out_strides, RANK)) {
        return DTN_REASON_OPERAND_SIZE;
    }
    return writes_once(p->dims, p->out_strides) ? DTN_OK : DTN_REASON_OVERWRITE;
}
