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

/* Channels that are pooled at once. */
enum { SIDE_BY_SIDE = 4 };

/* The part of a window that is on the map. */
typedef struct {
    int32_t rows;
    int32_t columns;
    size_t pixel; /* elements from a pixel to the next */
    size_t row;   /* from a row to the next */
} part_t;

static int16_t rounded(const params_t *p, const part_t *part, int32_t sum)
{
    int32_t count = p->divisor != 0 ? p->divisor : part->rows * part->columns;
    return dtn_cm_clamp_s16(mean(sum, count), INT16_MIN, INT16_MAX);
}

/* So many channels of a window, whose first element on the map is `pixels`. */
static inline __attribute__((always_inline)) void pool(const params_t *p, const int16_t *pixels, const part_t *part,
                                                       size_t count, int16_t *out)
{
    int32_t sums[SIDE_BY_SIDE] = {0};
    int32_t largest[SIDE_BY_SIDE] = {INT16_MIN, INT16_MIN, INT16_MIN, INT16_MIN};
    for (int32_t y = 0; y < part->rows; y++) {
        const int16_t *pixel = pixels;
        if (p->maximum) {
            for (int32_t x = 0; x < part->columns; x++) {
                for (size_t i = 0; i < count; i++) {
                    largest[i] = pixel[i] > largest[i] ? pixel[i] : largest[i];
                }
                pixel += part->pixel;
            }
        } else {
            for (int32_t x = 0; x < part->columns; x++) {
                for (size_t i = 0; i < count; i++) {
                    sums[i] += pixel[i];
                }
                pixel += part->pixel;
            }
        }
        pixels += part->row;
    }
    for (size_t i = 0; i < count; i++) {
        out[i] = p->maximum ? (int16_t)largest[i] : rounded(p, part, sums[i]);
    }
}

/* All channels. */
static void pool_channels(const params_t *p, const int16_t *pixels, const part_t *part, int16_t *out)
{
    size_t left = (size_t)p->channels;
    for (; left >= SIDE_BY_SIDE; left -= SIDE_BY_SIDE) {
        pool(p, pixels, part, SIDE_BY_SIDE, out);
        pixels += SIDE_BY_SIDE;
        out += SIDE_BY_SIDE;
    }
    for (; left > 0; left--) {
        pool(p, pixels++, part, 1, out++);
    }
}

int32_t dtn_cm_pool_s16(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const int16_t *image = (const int16_t *)call->values[DTN_CM_POOL_S16_INPUT].data;
    int16_t *out = (int16_t *)call->values[DTN_CM_POOL_S16_OUTPUT].data;
    const size_t channels = (size_t)p->channels;
    const size_t row = (size_t)p->in_w * channels;
    for (int32_t b = 0; b < p->batches; b++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            dtn_cm_window_t rows = dtn_cm_window(oy, p->stride_h, p->pad_h, p->kernel_h, 1, p->in_h);
            for (int32_t ox = 0; ox < p->out_w; ox++) {
                dtn_cm_window_t columns = dtn_cm_window(ox, p->stride_w, p->pad_w, p->kernel_w, 1, p->in_w);
                size_t pixel = (size_t)(rows.start + rows.first) * (size_t)p->in_w;
                pixel += (size_t)(columns.start + columns.first);
                const part_t part = {rows.end - rows.first, columns.end - columns.first, channels, row};
                pool_channels(p, image + pixel * channels, &part, out);
                out += channels;
            }
        }
        image += (size_t)p->in_h * row;
    }
    return DTN_OK;
}
