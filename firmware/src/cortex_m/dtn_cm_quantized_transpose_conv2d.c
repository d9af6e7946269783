#include "windows.h"

/* Kernel positions that meet an input at an output position: first, first + stride, ...; the inputs go down by 1. */
typedef struct {
    int32_t first;
    int32_t last;  /* less than first where there is none */
    int32_t input; /* that first meets */
} taps_t;

/*
 * Input i and kernel position k add to output i * stride + k - pad. So k has the remainder of out + pad, and input
 * (out + pad - k) / stride must be on the map.
 */
static taps_t taps_of(int32_t out, int32_t stride, int32_t pad, int32_t kernel, int32_t in)
{
    int32_t end = out + pad;
    taps_t taps = {end % stride, end < kernel ? end : kernel - 1, end / stride};
    if (taps.input >= in) {
        /* The first inputs that kernel positions ask for are behind the map. */
        taps.first += (taps.input - in + 1) * stride;
        taps.input = in - 1;
    }
    return taps;
}

/* All channels of an output pixel. */
static void one_pixel(const dtn_cm_convolution_t *layer, const int8_t *image, taps_t rows, taps_t columns, int8_t *out)
{
    const dtn_cm_windows_t *p = layer->p;
    size_t inputs = (size_t)p->in_c;
    size_t outputs = (size_t)p->out_c;
    for (size_t first = 0; first < outputs; first += DTN_CM_ROWS) {
        const int8_t *weights[DTN_CM_ROWS];
        uint32_t sums[DTN_CM_ROWS] = {0};
        dtn_cm_rows_of(layer->weights, (size_t)p->kernel_h * (size_t)p->kernel_w * inputs, first, outputs, weights);
        size_t y = (size_t)rows.input;
        for (int32_t ky = rows.first; ky <= rows.last; ky += p->stride_h, y--) {
            size_t x = (size_t)columns.input;
            for (int32_t kx = columns.first; kx <= columns.last; kx += p->stride_w, x--) {
                const int8_t *input = image + (y * (size_t)p->in_w + x) * inputs;
                size_t at = ((size_t)ky * (size_t)p->kernel_w + (size_t)kx) * inputs;
                dtn_cm_add_dots(input, p->in_offset, weights, at, inputs, sums);
            }
        }
        for (size_t j = 0; j < DTN_CM_ROWS && first + j < outputs; j++) {
            uint32_t sum = sums[j] + dtn_cm_bias(layer, first + j);
            dtn_cm_factor_t factor = dtn_cm_factor(&layer->scale, first + j);
            out[first + j] = dtn_cm_scaled(&layer->scale, &factor, sum);
        }
    }
}

static void run(const dtn_cm_convolution_t *layer)
{
    const dtn_cm_windows_t *p = layer->p;
    const int8_t *image = layer->input;
    int8_t *out = layer->output;
    for (int32_t b = 0; b < p->batches; b++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            taps_t rows = taps_of(oy, p->stride_h, p->pad_h, p->kernel_h, p->in_h);
            for (int32_t ox = 0; ox < p->out_w; ox++) {
                taps_t columns = taps_of(ox, p->stride_w, p->pad_w, p->kernel_w, p->in_w);
                one_pixel(layer, image, rows, columns, out);
                out += p->out_c;
            }
        }
        image += (size_t)p->in_h * (size_t)p->in_w * (size_t)p->in_c;
    }
}

/*
 * True when the output is as long as a transposed convolution makes it, with up to stride - 1 more at the end; or with
 * one more cut off there than at the start.
 */
static bool is_axis(int32_t in, int32_t out, int32_t kernel, int32_t stride, int32_t pad)
{
    int64_t least = (int64_t)(in - 1) * stride + kernel - 2 * (int64_t)pad - 1;
    return out >= least && out <= least + stride;
}

/* Some rows of a map: their windows are those of a map with up to stride - 1 more at the end, or a part of these. */
static bool has_rows(const dtn_cm_windows_t *p)
{
    return p->batches == 1 && p->pad_h < p->kernel_h + p->stride_h &&
           p->out_h + p->pad_h < p->in_h * p->stride_h + p->kernel_h;
}

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!dtn_cm_is_convolution(call, 2)) {
        return false;
    }
    const dtn_cm_windows_t *p = DTN_CM_PARAMS(call, dtn_cm_windows_t);
    return p->groups == 1 && p->has_kernel_sum == 0 && p->dilation_h == 1 && p->dilation_w == 1 &&
           (has_rows(p) || is_axis(p->in_h, p->out_h, p->kernel_h, p->stride_h, p->pad_h)) &&
           is_axis(p->in_w, p->out_w, p->kernel_w, p->stride_w, p->pad_w);
}

int32_t dtn_cm_quantized_transpose_conv2d(const dtn_operator_call_t *call, dtn_phase_t phase)
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
