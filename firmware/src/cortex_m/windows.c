#include "windows.h"

/* The last is the bias or the kernel sum, if there is one. */
enum { INPUT, WEIGHTS, MULTIPLIERS, SHIFTS, ADDEND };

static bool is_length(int32_t number)
{
    return number >= 1 && number <= DTN_CM_MAX_DIMENSION;
}

static bool is_flag(int32_t word)
{
    return word == 0 || word == 1;
}

static bool are_numbers(const dtn_cm_windows_t *p)
{
    const int32_t lengths[] = {p->batches,  p->in_h,       p->in_w,       p->in_c,     p->out_h,
                               p->out_w,    p->out_c,      p->kernel_h,   p->kernel_w, p->stride_h,
                               p->stride_w, p->dilation_h, p->dilation_w, p->groups};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        if (!is_length(lengths[i])) {
            return false;
        }
    }
    bool pads = p->pad_h >= 0 && p->pad_h <= DTN_CM_MAX_DIMENSION && p->pad_w >= 0 && p->pad_w <= DTN_CM_MAX_DIMENSION;
    return pads && dtn_cm_is_offset(p->in_offset) && dtn_cm_is_s8(p->out_offset) &&
           dtn_cm_is_range(p->act_min, p->act_max) && p->in_c % p->groups == 0 && p->out_c % p->groups == 0 &&
           is_flag(p->has_bias) && is_flag(p->has_kernel_sum) && p->has_bias + p->has_kernel_sum <= 1;
}

/* Without a division, which for 64 bits would be a function of 1 KB. */
static bool is_rounded_down(int64_t span, int32_t stride, int32_t out)
{
    return span >= 0 && (int64_t)(out - 1) * stride <= span && span < (int64_t)out * stride;
}

bool dtn_cm_is_axis(int32_t in, int32_t out, int32_t kernel, int32_t stride, int32_t pad, int32_t dilation)
{
    int64_t span = (int64_t)in + 2 * (int64_t)pad - (int64_t)(kernel - 1) * dilation - 1;
    return is_rounded_down(span, stride, out) || is_rounded_down(span + 1, stride, out);
}

bool dtn_cm_has_rows(const dtn_cm_windows_t *p)
{
    bool are_some = p->batches == 1 && p->pad_h <= (p->kernel_h - 1) * p->dilation_h &&
                    (p->out_h - 1) * p->stride_h - p->pad_h < p->in_h;
    return are_some || dtn_cm_is_axis(p->in_h, p->out_h, p->kernel_h, p->stride_h, p->pad_h, p->dilation_h);
}

bool dtn_cm_are_windows(const dtn_operator_call_t *call, uint32_t scratch)
{
    if (call->param_count != sizeof(dtn_cm_windows_t) / sizeof(uint32_t)) {
        return false;
    }
    const dtn_cm_windows_t *p = DTN_CM_PARAMS(call, dtn_cm_windows_t);
    if (!are_numbers(p)) {
        return false;
    }
    uint32_t addends = (uint32_t)(p->has_bias + p->has_kernel_sum);
    uint32_t inputs = ADDEND + addends;
    if (call->input_count != inputs || call->output_count != scratch + 1) {
        return false;
    }
    const dtn_tensor_t *values = call->values;
    const dtn_tensor_t *output = &values[inputs + scratch];
    int32_t seen = p->in_c / p->groups;
    return dtn_cm_are(values, 1, DTN_TYPE_S8) && dtn_cm_are(values + MULTIPLIERS, inputs - 2, DTN_TYPE_S32) &&
           dtn_cm_are(values + inputs, scratch, DTN_TYPE_U8) && dtn_cm_are(output, 1, DTN_TYPE_S8) &&
           dtn_cm_has_size(&values[INPUT], DTN_CM_LIST(p->batches, p->in_h, p->in_w, p->in_c)) &&
           dtn_cm_has_size(&values[MULTIPLIERS], DTN_CM_LIST(4, p->out_c)) &&
           dtn_cm_has_size(&values[SHIFTS], DTN_CM_LIST(4, p->out_c)) &&
           (addends == 0 || dtn_cm_has_size(&values[ADDEND], DTN_CM_LIST(4, p->out_c))) &&
           dtn_cm_has_size(output, DTN_CM_LIST(p->batches, p->out_h, p->out_w, p->out_c)) &&
           (int64_t)p->kernel_h * p->kernel_w <= DTN_CM_MAX_PRODUCTS / seen;
}

bool dtn_cm_is_convolution(const dtn_operator_call_t *call, uint32_t scratch)
{
    if (!dtn_cm_are_windows(call, scratch)) {
        return false;
    }
    const dtn_cm_windows_t *p = DTN_CM_PARAMS(call, dtn_cm_windows_t);
    const dtn_tensor_t *weights = &call->values[WEIGHTS];
    return weights->type == DTN_TYPE_S8 &&
           dtn_cm_has_size(weights, DTN_CM_LIST(p->out_c, p->kernel_h, p->kernel_w, p->in_c / p->groups));
}

bool dtn_cm_convolution(const dtn_operator_call_t *call, dtn_cm_convolution_t *convolution)
{
    const dtn_cm_windows_t *p = DTN_CM_PARAMS(call, dtn_cm_windows_t);
    const dtn_tensor_t *values = call->values;
    const int32_t *multipliers = (const int32_t *)values[MULTIPLIERS].data;
    const int32_t *shifts = (const int32_t *)values[SHIFTS].data;
    *convolution = (dtn_cm_convolution_t){
        .p = p,
        .input = (const int8_t *)values[INPUT].data,
        .weights = (const int8_t *)values[WEIGHTS].data,
        .bias = call->input_count > ADDEND ? (const int32_t *)values[ADDEND].data : NULL,
        .output = (int8_t *)values[call->input_count + call->output_count - 1].data,
        .channels = (size_t)p->out_c,
        .taps_pitch = (size_t)p->out_c,
        .scale = {multipliers, shifts, 1, 0, p->out_offset, p->act_min, p->act_max},
    };
    return dtn_cm_are_factors(&convolution->scale, (size_t)p->out_c);
}
