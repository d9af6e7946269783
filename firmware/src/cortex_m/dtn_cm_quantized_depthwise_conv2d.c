#include "windows.h"

/* Channels that are summed at once. */
enum { BLOCK = 4 };

/* A window on the map, for the channels from `channel` on. */
typedef struct {
    const dtn_cm_convolution_t *layer;
    dtn_cm_window_t rows;
    dtn_cm_window_t columns;
    const int8_t *image;
    int8_t *out;
} place_t;

/*
 * `count` outputs from `channel` on. `step` is 1 when each has an input channel of its own, and 0 when they share one.
 * Both are constants where this is called, so that each caller gets loops for them.
 */
static inline void some_channels(const place_t *place, size_t channel, size_t source, size_t step, size_t count)
{
    const dtn_cm_convolution_t *layer = place->layer;
    const dtn_cm_windows_t *p = layer->p;
    size_t in_c = (size_t)p->in_c;
    size_t out_c = (size_t)p->out_c;
    uint32_t sums[BLOCK] = {0};
    for (int32_t ky = place->rows.first; ky < place->rows.end; ky++) {
        size_t y = (size_t)(place->rows.start + ky * p->dilation_h);
        size_t x = (size_t)(place->columns.start + place->columns.first * p->dilation_w);
        const int8_t *input = place->image + (y * (size_t)p->in_w + x) * in_c + source;
        const int8_t *weights =
            layer->weights + ((size_t)ky * (size_t)p->kernel_w + (size_t)place->columns.first) * out_c + channel;
        for (int32_t kx = place->columns.first; kx < place->columns.end; kx++) {
            for (size_t j = 0; j < count; j++) {
                sums[j] += (uint32_t)((input[j * step] + p->in_offset) * weights[j]);
            }
            input += (size_t)p->dilation_w * in_c;
            weights += out_c;
        }
    }
    for (size_t j = 0; j < count; j++) {
        uint32_t sum = sums[j] + dtn_cm_bias(layer, channel + j);
        place->out[channel + j] = dtn_cm_scaled(&layer->scale, dtn_cm_factor(&layer->scale, channel + j), sum);
    }
}

/* As many outputs as inputs. */
static void each_input(const place_t *place)
{
    size_t channels = (size_t)place->layer->p->out_c;
    size_t channel = 0;
    for (; channel + BLOCK <= channels; channel += BLOCK) {
        some_channels(place, channel, channel, 1, BLOCK);
    }
    for (; channel < channels; channel++) {
        some_channels(place, channel, channel, 1, 1);
    }
}

/* Several outputs from each input. */
static void several_outputs(const place_t *place)
{
    size_t inputs = (size_t)place->layer->p->in_c;
    size_t multiplier = (size_t)place->layer->p->out_c / inputs;
    for (size_t input = 0; input < inputs; input++) {
        size_t channel = input * multiplier;
        size_t end = channel + multiplier;
        for (; channel + BLOCK <= end; channel += BLOCK) {
            some_channels(place, channel, input, 0, BLOCK);
        }
        for (; channel < end; channel++) {
            some_channels(place, channel, input, 0, 1);
        }
    }
}

static void run(const dtn_cm_convolution_t *layer)
{
    const dtn_cm_windows_t *p = layer->p;
    place_t place = {.layer = layer, .image = layer->input, .out = layer->output};
    for (int32_t b = 0; b < p->batches; b++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            place.rows = dtn_cm_window(oy, p->stride_h, p->pad_h, p->kernel_h, p->dilation_h, p->in_h);
            for (int32_t ox = 0; ox < p->out_w; ox++) {
                place.columns = dtn_cm_window(ox, p->stride_w, p->pad_w, p->kernel_w, p->dilation_w, p->in_w);
                if (p->out_c == p->in_c) {
                    each_input(&place);
                } else {
                    several_outputs(&place);
                }
                place.out += p->out_c;
            }
        }
        place.image += (size_t)p->in_h * (size_t)p->in_w * (size_t)p->in_c;
    }
}

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!dtn_cm_is_convolution(call, 1)) {
        return false;
    }
    const dtn_cm_windows_t *p = DTN_CM_PARAMS(call, dtn_cm_windows_t);
    return p->groups == p->in_c &&
           dtn_cm_is_axis(p->in_h, p->out_h, p->kernel_h, p->stride_h, p->pad_h, p->dilation_h) &&
           dtn_cm_is_axis(p->in_w, p->out_w, p->kernel_w, p->stride_w, p->pad_w, p->dilation_w);
}

int32_t dtn_cm_quantized_depthwise_conv2d(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    dtn_cm_convolution_t layer;
    if (!dtn_cm_convolution(call, &layer)) {
        return DTN_REASON_OPERATOR;
    }
    run(&layer);
    return DTN_OK;
}
