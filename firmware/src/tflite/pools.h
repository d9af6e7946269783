/**
 * @file
 * Shared by the pools: the checks of a call, and the part of a window that is inside the map.
 */
#ifndef DTN_TFLITE_POOLS_H
#define DTN_TFLITE_POOLS_H

#include "../cortex_m/windows.h"
#include "integer_common.h"

typedef dtn_tfl_average_pool_params_t dtn_tfl_pool_t;

/** True when each window on an axis has an element of the map. */
static inline bool dtn_tfl_is_pool_axis(int32_t in, int32_t out, int32_t kernel, int32_t stride, int32_t pad)
{
    const int32_t most = DTN_CM_MAX_DIMENSION;
    return in >= 1 && in <= most && out >= 1 && out <= most && kernel >= 1 && kernel <= most && stride >= 1 &&
           stride <= most && pad >= 0 && pad < kernel && (int64_t)(out - 1) * stride - pad < in;
}

static inline bool dtn_tfl_is_pool(const dtn_operator_call_t *call)
{
    uint32_t type = call->values[0].type;
    if (!DTN_CM_IS_CALL(call, 1, 1, dtn_tfl_pool_t) || !dtn_tfl_is_activation(type) ||
        !dtn_cm_are(call->values, 2, type)) {
        return false;
    }
    const dtn_tfl_pool_t *p = DTN_CM_PARAMS(call, dtn_tfl_pool_t);
    int32_t item = (int32_t)dtn_tfl_item(type);
    /* Sums of int16 stay below 2^31. */
    return dtn_tfl_is_pool_axis(p->in_h, p->out_h, p->kernel_h, p->stride_h, p->pad_h) &&
           dtn_tfl_is_pool_axis(p->in_w, p->out_w, p->kernel_w, p->stride_w, p->pad_w) &&
           (p->ties_up == 0 || p->ties_up == 1) && (int64_t)p->kernel_h * p->kernel_w <= UINT16_MAX &&
           dtn_tfl_is_range(type, p->act_min, p->act_max) &&
           dtn_cm_has_size(&call->values[0], DTN_CM_LIST(p->batches, p->in_h, p->in_w, p->channels, item)) &&
           dtn_cm_has_size(&call->values[1], DTN_CM_LIST(p->batches, p->out_h, p->out_w, p->channels, item));
}

/** A window: the index of its first element of channel 0, and how many rows and columns it has. */
typedef struct {
    uint32_t first;
    int32_t rows;
    int32_t columns;
} dtn_tfl_window_t;

static inline dtn_tfl_window_t dtn_tfl_window(const dtn_tfl_pool_t *p, int32_t batch, int32_t oy, int32_t ox)
{
    dtn_cm_window_t rows = dtn_cm_window(oy, p->stride_h, p->pad_h, p->kernel_h, 1, p->in_h);
    dtn_cm_window_t columns = dtn_cm_window(ox, p->stride_w, p->pad_w, p->kernel_w, 1, p->in_w);
    uint32_t y = (uint32_t)(batch * p->in_h + rows.start + rows.first);
    uint32_t x = (uint32_t)(columns.start + columns.first);
    return (dtn_tfl_window_t){(y * (uint32_t)p->in_w + x) * (uint32_t)p->channels, rows.end - rows.first,
                              columns.end - columns.first};
}

#endif /* DTN_TFLITE_POOLS_H */
