#include "../kernels/check/check.h"
#include "../kernels/requant.h"
#include "cortex_m.h"
#include "npu_kernel_call.h"
#include "pooling.h"

/* Channels whose sums are made at once. */
enum { CHANNELS = 32 };

typedef dtn_cm_quantized_avg_pool2d_params_t params_t;

static int32_t check(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 1, 2, params_t) || call->values[0].type != DTN_TYPE_S8 ||
        call->values[2].type != DTN_TYPE_S8) {
        return DTN_REASON_OPERATOR;
    }
    dtn_call_t inner = dtn_cm_kernel_call(call, DTN_PHASE_CHECK, call->params);
    return dtn_cm_reason((int32_t)dtn_check_average_pool_s8(&inner));
}

/* The sums of a window, in parts that are small enough. */
static void window_sums(const dtn_cm_pixels_t *window, int32_t *sums, size_t channels)
{
    if (window->rows * window->columns <= DTN_CM_MOST_PIXELS) {
        dtn_cm_add_pixels(window, sums, channels);
        return;
    }
    dtn_cm_pixels_t part = *window;
    part.rows = 1;
    for (size_t row = 0; row < window->rows; row++) {
        for (size_t column = 0; column < window->columns; column += DTN_CM_MOST_PIXELS) {
            size_t left = window->columns - column;
            part.pixels = window->pixels + row * window->row_step + column * window->column_step;
            part.columns = left < DTN_CM_MOST_PIXELS ? left : DTN_CM_MOST_PIXELS;
            dtn_cm_add_pixels(&part, sums, channels);
        }
    }
}

/* sum / count, rounded to nearest, ties to even. */
static int32_t mean(int32_t sum, int32_t count)
{
    int32_t quotient = sum / count;
    int32_t twice = 2 * (sum - quotient * count);
    int32_t odd = quotient & 1;
    return quotient + (twice + odd > count ? 1 : 0) - (twice - odd < -count ? 1 : 0);
}

/* All channels of a pixel. */
static void pixel_run(const params_t *p, dtn_cm_pixels_t window, int8_t *out)
{
    int32_t count = (int32_t)(window.rows * window.columns);
    bool is_plain = p->shift < 31 && p->mult == 1 << p->shift;
    for (int32_t channel = 0; channel < p->channels; channel += CHANNELS) {
        int32_t channels = p->channels - channel < CHANNELS ? p->channels - channel : CHANNELS;
        int32_t sums[CHANNELS] = {0};
        window_sums(&window, sums, (size_t)channels);
        for (int32_t i = 0; i < channels; i++) {
            int32_t sum = sums[i] - count * p->in_zp;
            *out++ = is_plain
                         ? (int8_t)dtn_cm_clamp(mean(sum, count) + p->out_zp, p->act_min, p->act_max)
                         : dtn_mean_s8(sum, p->mult, (uint64_t)count << p->shift, p->out_zp, p->act_min, p->act_max);
        }
        window.pixels += channels;
    }
}

static void run(const dtn_operator_call_t *call)
{
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const int8_t *image = (const int8_t *)call->values[0].data;
    int8_t *out = (int8_t *)call->values[2].data;
    for (int32_t b = 0; b < p->batches; b++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            dtn_window_t rows = dtn_window(oy, p->stride_h, p->pad_top, p->kernel_h, 1, p->in_h);
            for (int32_t ox = 0; ox < p->out_w; ox++) {
                dtn_window_t columns = dtn_window(ox, p->stride_w, p->pad_left, p->kernel_w, 1, p->in_w);
                pixel_run(p, dtn_cm_pixels(image, rows, columns, p->in_w, p->channels), out);
                out += p->channels;
            }
        }
        image += (size_t)p->in_h * (size_t)p->in_w * (size_t)p->channels;
    }
}

int32_t dtn_cm_quantized_avg_pool2d(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return check(call);
    }
    run(call);
    return DTN_OK;
}
