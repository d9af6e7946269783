#include "depthwise_in_place.h"

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!dtn_cm_is_convolution(call, 1)) {
        return false;
    }
    const dtn_cm_windows_t *p = DTN_CM_PARAMS(call, dtn_cm_windows_t);
    return p->groups == p->in_c && p->has_kernel_sum == 0 && dtn_cm_has_rows(p) &&
           dtn_cm_is_axis(p->in_w, p->out_w, p->kernel_w, p->stride_w, p->pad_w, p->dilation_w);
}

static void run(const dtn_cm_convolution_t *layer, const dtn_tensor_t *scratch)
{
    if (!dtn_cm_convolve_depthwise(layer, scratch->data, scratch->bytes)) {
        dtn_cm_depthwise_in_place(layer);
    }
}

DTN_CM_CONVOLUTION(dtn_cm_quantized_depthwise_conv2d, is_valid, run)
