#include "depthwise_in_place.h"
#include "packed_weights.h"

/* Weights that are unpacked to the stack at once: of so many channels, or fewer where there are many taps. The inner
 * loops want blocks of channels. */
enum { UNPACKED = 512, CHANNELS = 32, BLOCK = 4 };

/* The weights of `channels` channels from `first` on, at all positions of the kernel. */
static void unpack(const int8_t *packed, size_t pitch, size_t taps, size_t channels, int8_t weights[UNPACKED])
{
    for (size_t tap = 0; tap + 1 < taps; tap += DTN_CM_PACKED) {
        dtn_cm_unpack_weights(packed, channels, weights, weights + channels);
        packed += pitch;
        weights += DTN_CM_PACKED * channels;
    }
    for (size_t i = 0; i < channels && taps % DTN_CM_PACKED != 0; i++) {
        weights[i] = (int8_t)dtn_cm_first_weight(packed[i]);
    }
}

/* Some channels as a layer of int8 weights. */
static void some_channels(const dtn_cm_convolution_t *layer, size_t first, size_t count, const dtn_tensor_t *scratch)
{
    int8_t weights[UNPACKED];
    const dtn_cm_windows_t *p = layer->p;
    dtn_cm_convolution_t some = *layer;
    some.input += first;
    some.weights = weights;
    some.bias = layer->bias == NULL ? NULL : layer->bias + first;
    some.output += first;
    some.channels = count;
    some.taps_pitch = count;
    some.scale.multipliers += first;
    some.scale.shifts += first;
    unpack(layer->weights + first, (size_t)p->out_c, (size_t)(p->kernel_h * p->kernel_w), count, weights);
    if (!dtn_cm_convolve_depthwise(&some, scratch->data, scratch->bytes)) {
        dtn_cm_depthwise_in_place(&some);
    }
}

/* Channels whose weights are unpacked at once: whole blocks, if one fits. */
static size_t most_channels(size_t taps)
{
    const size_t fit = UNPACKED / taps < CHANNELS ? UNPACKED / taps : CHANNELS;
    return fit < BLOCK ? fit : fit / BLOCK * BLOCK;
}

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!dtn_cm_are_windows(call, 1)) {
        return false;
    }
    const dtn_cm_windows_t *p = DTN_CM_PARAMS(call, dtn_cm_windows_t);
    const dtn_tensor_t *weights = &call->values[1];
    const int32_t taps = p->kernel_h * p->kernel_w; /* at most DTN_CM_MAX_PRODUCTS */
    return p->groups == p->in_c && p->out_c == p->in_c && p->has_kernel_sum == 0 && taps <= UNPACKED &&
           weights->type == DTN_TYPE_S8 &&
           dtn_cm_has_size(weights, DTN_CM_LIST((int32_t)dtn_cm_packed_rows((size_t)taps), p->out_c)) &&
           dtn_cm_has_rows(p) && dtn_cm_is_axis(p->in_w, p->out_w, p->kernel_w, p->stride_w, p->pad_w, p->dilation_w);
}

static void run(const dtn_cm_convolution_t *layer, const dtn_tensor_t *scratch)
{
    const size_t most = most_channels((size_t)(layer->p->kernel_h * layer->p->kernel_w));
    for (size_t first = 0, count; first < layer->channels; first += count) {
        const size_t left = layer->channels - first;
        count = left < most ? left : most;
        if (left > count && left - count < BLOCK && count > BLOCK) {
            count -= BLOCK;
        }
        some_channels(layer, first, count, scratch);
    }
}

DTN_CM_CONVOLUTION(dtn_cm_quantized_depthwise_conv2d_s4, is_valid, run)
