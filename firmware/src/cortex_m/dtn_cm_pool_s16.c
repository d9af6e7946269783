#include "int16.h"
#include "windows.h"

typedef dtn_cm_pool_s16_params_t params_t;

/* Sums of so many elements fit 32 bits. */
enum { MOST_ELEMENTS = 65535 };

static bool are_numbers(const params_t *p)
{
    const int32_t lengths[] = {p->batches, p->in_h,     p->in_w,     p->channels, p->out_h,
                               p->out_w,   p->kernel_h, p->kernel_w, p->stride_h, p->stride_w};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        if (lengths[i] < 1 || lengths[i] > DTN_CM_MAX_DIMENSION) {
            return false;
        }
    }
    /* With pads of at most half a window each window has an element on the map. */
    return p->pad_h >= 0 && p->pad_h <= p->kernel_h / 2 && p->pad_w >= 0 && p->pad_w <= p->kernel_w / 2 &&
           p->kernel_h <= MOST_ELEMENTS / p->kernel_w && p->divisor >= 0 && p->divisor <= MOST_ELEMENTS &&
           (p->maximum == 0 || p->maximum == 1);
}

static bool is_valid(const dtn_operator_call_t *call)
{
    const dtn_tensor_t *values = call->values;
    if (!DTN_CM_IS_CALL(call, 1, 1, params_t) || !dtn_cm_are(values, 2, DTN_TYPE_S16)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    return are_numbers(p) && dtn_cm_is_axis(p->in_h, p->out_h, p->kernel_h, p->stride_h, p->pad_h, 1) &&
           dtn_cm_is_axis(p->in_w, p->out_w, p->kernel_w, p->stride_w, p->pad_w, 1) &&
           dtn_cm_has_size(&values[0], DTN_CM_LIST(2, p->batches, p->in_h, p->in_w, p->channels)) &&
           dtn_cm_has_size(&values[1], DTN_CM_LIST(2, p->batches, p->out_h, p->out_w, p->channels));
}

/* sum / count, rounded to nearest, ties to even. */
static int32_t mean(int32_t sum, int32_t count)
{
    int32_t quotient = sum / count;
    int32_t twice = 2 * (sum - quotient * count);
    int32_t odd = quotient & 1;
    return quotient + (twice + odd > count ? 1 : 0) - (twice - odd < -count ? 1 : 0);
}

/* One channel of a window, whose first element on the map is `pixels`. */
static int16_t pooled(const params_t *p, const int16_t *pixels, int32_t rows, int32_t columns)
{
    int32_t sum = 0;
    int32_t largest = INT16_MIN;
    for (int32_t y = 0; y < rows; y++) {
        const int16_t *pixel = pixels + (size_t)y * (size_t)p->in_w * (size_t)p->channels;
        for (int32_t x = 0; x < columns; x++, pixel += p->channels) {
            sum += *pixel;
            largest = *pixel > largest ? *pixel : largest;
        }
    }
    return dtn_cm_clamp_s16(p->maximum ? largest : mean(sum, p->divisor ? p->divisor : rows * columns), INT16_MIN,
                            INT16_MAX);
}

int32_t dtn_cm_pool_s16(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const int16_t *image = (const int16_t *)call->values[DTN_CM_POOL_S16_INPUT].data;
    int16_t *out = (int16_t *)call->values[DTN_CM_POOL_S16_OUTPUT].data;
    for (int32_t b = 0; b < p->batches; b++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            dtn_cm_window_t rows = dtn_cm_window(oy, p->stride_h, p->pad_h, p->kernel_h, 1, p->in_h);
            for (int32_t ox = 0; ox < p->out_w; ox++) {
                dtn_cm_window_t columns = dtn_cm_window(ox, p->stride_w, p->pad_w, p->kernel_w, 1, p->in_w);
                size_t pixel = (size_t)(rows.start + rows.first) * (size_t)p->in_w;
                pixel += (size_t)(columns.start + columns.first);
                const int16_t *pixels = image + pixel * (size_t)p->channels;
                for (int32_t c = 0; c < p->channels; c++) {
                    *out++ = pooled(p, pixels + c, rows.end - rows.first, columns.end - columns.first);
                }
            }
        }
        image += (size_t)p->in_h * (size_t)p->in_w * (size_t)p->channels;
    }
    return DTN_OK;
}
