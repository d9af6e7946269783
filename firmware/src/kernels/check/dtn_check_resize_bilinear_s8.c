#include "check.h"

static bool is_unit(int32_t value, int32_t lowest)
{
    return value >= lowest && value <= (int32_t)DTN_MAX_RESIZE_UNIT;
}

static bool is_axis(int32_t start, int32_t step, int32_t unit)
{
    return is_unit(start, -(int32_t)DTN_MAX_RESIZE_UNIT) && is_unit(step, 0) && is_unit(unit, 1);
}

dtn_reason_t dtn_check_resize_bilinear_s8(const dtn_call_t *call)
{
    const dtn_resize_bilinear_s8_params_t *p = (const dtn_resize_bilinear_s8_params_t *)(const void *)call->params;
    const dtn_operand_t *operands = call->operands;
    dtn_reason_t reason = dtn_check_range(p->zero_point, p->zero_point, INT8_MIN, INT8_MAX);
    if (reason != DTN_OK) {
        return reason;
    }
    if (!dtn_are_dimensions(DTN_LIST(p->batches, p->in_h, p->in_w, p->channels, p->out_h, p->out_w)) ||
        !is_axis(p->start_h, p->step_h, p->unit_h) || !is_axis(p->start_w, p->step_w, p->unit_w)) {
        return DTN_REASON_PARAMETER;
    }
    if (!dtn_has_size(&operands[DTN_RESIZE_BILINEAR_S8_INPUT], DTN_LIST(p->batches, p->in_h, p->in_w, p->channels)) ||
        !dtn_has_size(&operands[DTN_RESIZE_BILINEAR_S8_OUTPUT],
                      DTN_LIST(p->batches, p->out_h, p->out_w, p->channels))) {
        return DTN_REASON_OPERAND_SIZE;
    }
    return DTN_OK;
}
