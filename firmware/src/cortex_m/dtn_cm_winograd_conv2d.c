#include "winograd.h"

enum { WEIGHTS = 1 };

static bool is_winograd(const dtn_cm_windows_t *p)
{
    return p->kernel_h == 3 && p->kernel_w == 3 && p->stride_h == 1 && p->stride_w == 1 && p->dilation_h == 1 &&
           p->dilation_w == 1 && p->groups == 1 && p->has_kernel_sum == 1;
}

/* Rows of weights: a single channel has a second of zeros. */
static int32_t rows_of(const dtn_cm_windows_t *p)
{
    return p->out_c == 1 ? 2 : p->out_c;
}

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!dtn_cm_are_windows(call, 1)) {
        return false;
    }
    const dtn_cm_windows_t *p = DTN_CM_PARAMS(call, dtn_cm_windows_t);
    const dtn_tensor_t *weights = &call->values[WEIGHTS];
    const int32_t fours = (int32_t)dtn_cm_winograd_fours((size_t)p->in_c);
    return is_winograd(p) && weights->type == DTN_TYPE_S16 &&
           dtn_cm_has_size(weights,
                           DTN_CM_LIST(rows_of(p), fours, 4 * DTN_CM_TILE_PRODUCTS * (int32_t)sizeof(int16_t))) &&
           call->values[call->input_count].bytes >= dtn_cm_winograd_scratch((size_t)p->in_c) && dtn_cm_has_rows(p) &&
           dtn_cm_is_axis(p->in_w, p->out_w, 3, 1, p->pad_w, 1);
}

int32_t dtn_cm_winograd_conv2d(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const dtn_tensor_t *scratch = &call->values[call->input_count];
    dtn_cm_convolution_t checked;
    if (!dtn_cm_convolution(call, &checked) || (uintptr_t)scratch->data % sizeof(uint32_t) != 0 ||
        (uintptr_t)call->values[WEIGHTS].data % sizeof(uint32_t) != 0) {
        return DTN_REASON_OPERATOR;
    }
    const dtn_cm_winograd_t layer = {
        .p = checked.p,
        .input = checked.input,
        .weights = (const int16_t *)call->values[WEIGHTS].data,
        .kernel_sums = checked.bias,
        .output = checked.output,
        .scale = checked.scale,
    };
    dtn_cm_convolve_winograd(&layer, scratch->data);
    return DTN_OK;
}
