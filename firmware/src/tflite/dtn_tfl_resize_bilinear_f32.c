#include "float32_common.h"

typedef dtn_tfl_resize_bilinear_f32_params_t params_t;

/* The offset that is subtracted from a file's uint8 values to store them. */
enum { UNSIGNED_OFFSET = 128 };

static bool is_valid(const dtn_operator_call_t *call)
{
    uint32_t type = call->values[0].type;
    if (!DTN_CM_IS_CALL(call, 1, 1, params_t) || (type != DTN_TYPE_F32 && type != DTN_TYPE_S8) ||
        !dtn_cm_are(call->values, 2, type)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    int32_t item = type == DTN_TYPE_F32 ? 4 : 1;
    return (p->half_pixel_centers == 0 || p->half_pixel_centers == 1) && p->out_h <= (int32_t)DTN_MAX_DIMENSION &&
           p->out_w <= (int32_t)DTN_MAX_DIMENSION && dtn_tfl_real(p->scale_h) >= 0.0F &&
           dtn_tfl_real(p->scale_h) <= (float)p->in_h && dtn_tfl_real(p->scale_w) >= 0.0F &&
           dtn_tfl_real(p->scale_w) <= (float)p->in_w &&
           dtn_cm_has_size(&call->values[0], DTN_CM_LIST(item, p->batches, p->in_h, p->in_w, p->channels)) &&
           dtn_cm_has_size(&call->values[1], DTN_CM_LIST(item, p->batches, p->out_h, p->out_w, p->channels));
}

/* The two lines around a position, and its distance from the first. */
typedef struct {
    size_t first;
    size_t second;
    float rest;
} lines_t;

static lines_t lines(int32_t at, int32_t scale_bits, bool has_centres, int32_t size)
{
    float scale = dtn_tfl_real(scale_bits);
    float place = (float)at * scale;
    if (has_centres) {
        place = ((float)at + 0.5F) * scale;
        place -= 0.5F;
    }
    /* Positions of a valid map are below its size; others stay within int32. */
    float end = (float)size + 1.0F;
    place = place < end ? place : end;
    int32_t whole = (int32_t)place;
    int32_t below = (float)whole > place ? whole - 1 : whole, above = (float)whole < place ? whole + 1 : whole;
    int32_t first = dtn_cm_clamp(below, 0, size - 1), second = dtn_cm_clamp(above, 0, size - 1);
    return (lines_t){(size_t)first, (size_t)second, place - (float)first};
}

/* The four neighbours, which are `places` of a channel. */
static void load(const dtn_tensor_t *in, const size_t places[4], float neighbours[4])
{
    if (in->type == DTN_TYPE_F32) {
        for (size_t i = 0; i < 4; i++) {
            neighbours[i] = ((const float *)in->data)[places[i]];
        }
        return;
    }
    for (size_t i = 0; i < 4; i++) {
        neighbours[i] = (float)(((const int8_t *)in->data)[places[i]] + UNSIGNED_OFFSET);
    }
}

/* An element: the neighbours with their shares. */
static float mixed(const dtn_tensor_t *in, const size_t places[4], float below, float right)
{
    float above = 1.0F - below, left = 1.0F - right, neighbours[4];
    load(in, places, neighbours);
    float a = neighbours[0] * above;
    float b = neighbours[1] * below;
    float c = neighbours[2] * above;
    float d = neighbours[3] * below;
    a *= left;
    b *= left;
    c *= right;
    d *= right;
    float sum = a + b;
    sum += c;
    sum += d;
    return sum;
}

static void pixel(const params_t *p, const dtn_tensor_t *values, size_t image, lines_t rows, lines_t columns,
                  size_t out)
{
    size_t channels = (size_t)p->channels, width = (size_t)p->in_w;
    size_t top = image + rows.first * width, bottom = image + rows.second * width;
    size_t places[4] = {(top + columns.first) * channels, (bottom + columns.first) * channels,
                        (top + columns.second) * channels, (bottom + columns.second) * channels};
    bool is_real = values[1].type == DTN_TYPE_F32;
    for (size_t c = 0; c < channels; c++) {
        float sum = mixed(&values[0], places, rows.rest, columns.rest);
        if (is_real) {
            ((float *)values[1].data)[out + c] = sum;
        } else {
            /* floor(sum + 1/2) in float32: the difference is exact. */
            float shifted = sum + 0.5F;
            ((int8_t *)values[1].data)[out + c] = (int8_t)(dtn_tfl_nearest(shifted - 0.5F) - UNSIGNED_OFFSET);
        }
        for (size_t i = 0; i < 4; i++) {
            places[i]++;
        }
    }
}

int32_t dtn_tfl_resize_bilinear_f32(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    bool has_centres = p->half_pixel_centers == 1;
    size_t image = 0, out = 0;
    for (int32_t b = 0; b < p->batches; b++, image += (size_t)p->in_h * (size_t)p->in_w) {
        for (int32_t y = 0; y < p->out_h; y++) {
            lines_t rows = lines(y, p->scale_h, has_centres, p->in_h);
            for (int32_t x = 0; x < p->out_w; x++, out += (size_t)p->channels) {
                pixel(p, call->values, image, rows, lines(x, p->scale_w, has_centres, p->in_w), out);
            }
        }
    }
    return DTN_OK;
}
