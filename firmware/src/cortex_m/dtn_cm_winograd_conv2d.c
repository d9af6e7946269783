#include "winograd.h"

enum { WEIGHTS = 1 };

/* Channels of a group, and the least of a part: then all groups have two. */
enum { GROUP = 3, LEAST_CHANNELS = 2 };

/* Its first fields are those of dtn_cm_windows_t. */
typedef dtn_cm_winograd_conv2d_params_t params_t;

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

/* Pairs of tiles in scratch memory. */
static size_t pairs_of(const dtn_cm_windows_t *windows, const params_t *p)
{
    return p->keeps_tiles == 1 ? dtn_cm_winograd_pairs(windows) : 1;
}

/* True if the weights have their bytes, and scratch memory holds those that each run transforms. */
static bool has_weights(const dtn_operator_call_t *call, const dtn_cm_windows_t *windows, const params_t *p)
{
    const dtn_tensor_t *weights = &call->values[WEIGHTS];
    const size_t inputs = (size_t)windows->in_c;
    const int64_t least = (int64_t)dtn_cm_winograd_scratch(inputs, 0) +
                          (int64_t)pairs_of(windows, p) * (int64_t)dtn_cm_winograd_pair(inputs) +
                          (int64_t)p->channels * (int64_t)dtn_cm_winograd_channel(inputs);
    if ((int64_t)call->values[call->input_count].bytes < least) {
        return false;
    }
    if (p->channels != 0) {
        return weights->type == DTN_TYPE_S8 &&
               dtn_cm_has_size(weights, DTN_CM_LIST(windows->out_c, 3, 3, windows->in_c));
    }
    const int32_t fours = (int32_t)dtn_cm_winograd_fours(inputs);
    const int32_t channel = 4 * DTN_CM_TILE_PRODUCTS * (int32_t)sizeof(int16_t);
    return weights->type == DTN_TYPE_S16 && dtn_cm_has_size(weights, DTN_CM_LIST(rows_of(windows), fours, channel));
}

static bool is_valid(const dtn_operator_call_t *call)
{
    if (call->param_count != sizeof(params_t) / sizeof(uint32_t)) {
        return false;
    }
    dtn_operator_call_t convolution = *call;
    convolution.param_count = sizeof(dtn_cm_windows_t) / sizeof(uint32_t);
    if (!dtn_cm_are_windows(&convolution, 1)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_cm_windows_t *windows = DTN_CM_PARAMS(call, dtn_cm_windows_t);
    const bool transforms = p->channels >= LEAST_CHANNELS && p->channels <= windows->out_c + 2;
    return is_winograd(windows) && (p->keeps_tiles == 0 || p->keeps_tiles == 1) &&
           (transforms || (p->channels == 0 && p->keeps_tiles == 0)) && has_weights(call, windows, p) &&
           dtn_cm_has_rows(windows) && dtn_cm_is_axis(windows->in_w, windows->out_w, 3, 1, windows->pad_w, 1);
}

/* Transforms the weights of some groups of channels and computes these, until all are computed. */
static void convolve_in_parts(dtn_cm_winograd_t *layer, const params_t *p, const int8_t *kernels, void *scratch)
{
    const size_t inputs = (size_t)p->in_c;
    const size_t outputs = (size_t)p->out_c;
    const size_t of_channel = dtn_cm_winograd_channel(inputs) / sizeof(int16_t);
    int16_t *weights = (int16_t *)(void *)((uint8_t *)scratch + dtn_cm_winograd_scratch(inputs, pairs_of(layer->p, p)));
    layer->weights = weights;
    layer->most = p->channels < GROUP ? LEAST_CHANNELS : GROUP;
    layer->tiles = p->keeps_tiles == 1 ? DTN_CM_TILES_WRITTEN : DTN_CM_TILES_DROPPED;
    for (size_t first = 0; first < outputs; first = layer->end) {
        size_t end = first;
        size_t count = dtn_cm_winograd_group(end, outputs, layer->most);
        while (end < outputs && end + count - first <= (size_t)p->channels) {
            dtn_cm_transform_winograd(kernels + end * 9 * inputs, inputs, outputs - end, count,
                                      weights + (end - first) * of_channel);
            end += count;
            count = dtn_cm_winograd_group(end, outputs, layer->most);
        }
        layer->first = first;
        layer->end = end < outputs ? end : outputs; /* a group may be one larger than what is left */
        dtn_cm_convolve_winograd(layer, scratch);
        layer->tiles = p->keeps_tiles == 1 ? DTN_CM_TILES_READ : DTN_CM_TILES_DROPPED;
    }
}

int32_t dtn_cm_winograd_conv2d(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *scratch = &call->values[call->input_count];
    const void *weights = call->values[WEIGHTS].data;
    dtn_cm_convolution_t checked;
    if (!dtn_cm_convolution(call, &checked) || (uintptr_t)scratch->data % sizeof(uint32_t) != 0 ||
        (p->channels == 0 && (uintptr_t)weights % sizeof(uint32_t) != 0)) {
        return DTN_REASON_OPERATOR;
    }
    dtn_cm_winograd_t layer = {
        .p = checked.p,
        .input = checked.input,
        .weights = (const int16_t *)weights,
        .kernel_sums = checked.bias,
        .output = checked.output,
        .scale = checked.scale,
        .end = (size_t)checked.p->out_c,
        .most = GROUP,
        .tiles = DTN_CM_TILES_DROPPED,
    };
    if (p->channels == 0) {
        dtn_cm_convolve_winograd(&layer, scratch->data);
    } else {
        convolve_in_parts(&layer, p, checked.weights, scratch->data);
    }
    return DTN_OK;
}
