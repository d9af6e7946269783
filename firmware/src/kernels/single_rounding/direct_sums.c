#include "../window.h"
#include "single_rounding_factors.h"

static uint32_t sum_of(const dtn_sr_sums_t *sums, const int8_t *image, dtn_window_t rows, dtn_window_t columns,
                       size_t channel)
{
    const dtn_cm_windows_t *p = sums->windows;
    const int8_t *weights = sums->weights + channel * sums->channel_pitch;
    uint32_t sum = (uint32_t)sums->bias[channel];
    for (int32_t ky = rows.first; ky < rows.end; ky++) {
        for (int32_t kx = columns.first; kx < columns.end; kx++) {
            size_t y = (size_t)(rows.start + (int64_t)ky * p->dilation_h);
            size_t x = (size_t)(columns.start + (int64_t)kx * p->dilation_w);
            const int8_t *pixel = image + (y * (size_t)p->in_w + x) * (size_t)p->in_c;
            const int8_t *tap = weights + ((size_t)ky * (size_t)p->kernel_w + (size_t)kx) * sums->tap_pitch;
            for (size_t c = 0; c < sums->depth; c++) {
                sum += (uint32_t)((pixel[c] + p->in_offset) * tap[c]);
            }
        }
    }
    return sum;
}

void dtn_sr_by_sums(const dtn_sr_sums_t *sums, size_t first, size_t count)
{
    const dtn_cm_windows_t *p = sums->windows;
    const int8_t *image = sums->input;
    int8_t *out = sums->output;
    for (int32_t b = 0; b < p->batches; b++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            dtn_window_t rows = dtn_window(oy, p->stride_h, p->pad_h, p->kernel_h, p->dilation_h, p->in_h);
            for (int32_t ox = 0; ox < p->out_w; ox++) {
                dtn_window_t columns = dtn_window(ox, p->stride_w, p->pad_w, p->kernel_w, p->dilation_w, p->in_w);
                for (size_t channel = first; channel < first + count; channel++) {
                    const int8_t *inputs = image + channel / sums->outputs_per_input;
                    uint32_t sum = sum_of(sums, inputs, rows, columns, channel);
                    out[channel] = dtn_sr_output(&sums->outputs, channel, sum);
                }
                out += p->out_c;
            }
        }
        image += (size_t)p->in_h * (size_t)p->in_w * (size_t)p->in_c;
    }
}
