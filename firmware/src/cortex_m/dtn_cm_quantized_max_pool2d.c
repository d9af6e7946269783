#include "../kernels/check/check.h"
#include "cortex_m.h"
#include "npu_kernel_call.h"
#include "pooling.h"

typedef dtn_cm_quantized_max_pool2d_params_t params_t;

static int32_t check(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 1, 1, params_t) || !dtn_cm_are(call->values, 2, DTN_TYPE_S8)) {
        return DTN_REASON_OPERATOR;
    }
    dtn_call_t inner = dtn_cm_kernel_call(call, DTN_PHASE_CHECK, call->params);
    return dtn_cm_reason((int32_t)dtn_check_max_pool_s8(&inner));
}

static void run(const dtn_operator_call_t *call)
{
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const int8_t *image = (const int8_t *)call->values[0].data;
    int8_t *out = (int8_t *)call->values[1].data;
    for (int32_t b = 0; b < p->batches; b++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            dtn_window_t rows = dtn_window(oy, p->stride_h, p->pad_top, p->kernel_h, 1, p->in_h);
            for (int32_t ox = 0; ox < p->out_w; ox++) {
                dtn_window_t columns = dtn_window(ox, p->stride_w, p->pad_left, p->kernel_w, 1, p->in_w);
                dtn_cm_pixels_t window = dtn_cm_pixels(image, rows, columns, p->in_w, p->channels);
                dtn_cm_largest_pixels(&window, (int8_t)p->act_min, (int8_t)p->act_max, out, (size_t)p->channels);
                out += p->channels;
            }
        }
        image += (size_t)p->in_h * (size_t)p->in_w * (size_t)p->channels;
    }
}

int32_t dtn_cm_quantized_max_pool2d(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return check(call);
    }
    run(call);
    return DTN_OK;
}
