#include "../cortex_m/windows.h"
#include "numbers.h"

typedef dtn_tfl_convolution_s16_params_t params_t;

enum { INPUT, WEIGHTS, MULTIPLIERS, SHIFTS, BIAS };

/* Products of int16 and int8 that a sum of 32 bits holds. */
enum { CHUNK = 256 };

static bool is_flag(int32_t word)
{
    return word == 0 || word == 1;
}

static bool are_numbers(const params_t *p)
{
    const int32_t lengths[] = {p->batches,  p->in_h,       p->in_w,       p->in_c,     p->out_h,
                               p->out_w,    p->out_c,      p->kernel_h,   p->kernel_w, p->stride_h,
                               p->stride_w, p->dilation_h, p->dilation_w, p->groups};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        if (lengths[i] < 1 || lengths[i] > DTN_CM_MAX_DIMENSION) {
            return false;
        }
    }
    return p->pad_h >= 0 && p->pad_h <= DTN_CM_MAX_DIMENSION && p->pad_w >= 0 && p->pad_w <= DTN_CM_MAX_DIMENSION &&
           dtn_cm_is_axis(p->in_h, p->out_h, p->kernel_h, p->stride_h, p->pad_h, p->dilation_h) &&
           dtn_cm_is_axis(p->in_w, p->out_w, p->kernel_w, p->stride_w, p->pad_w, p->dilation_w) &&
           dtn_tfl_is_range(DTN_TYPE_S16, p->act_min, p->act_max) && p->in_c % p->groups == 0 &&
           p->out_c % p->groups == 0 && is_flag(p->narrow) && is_flag(p->has_bias);
}

static bool is_valid(const dtn_operator_call_t *call)
{
    if (call->param_count != sizeof(params_t) / sizeof(uint32_t)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    if (!are_numbers(p) || call->input_count != (uint32_t)(BIAS + p->has_bias) || call->output_count != 1) {
        return false;
    }
    const dtn_tensor_t *values = call->values, *bias = &values[BIAS], *out = &values[BIAS + p->has_bias];
    bool is_bias = bias->type == DTN_TYPE_S32 || (bias->type == DTN_TYPE_S64 && p->narrow == 0);
    return values[INPUT].type == DTN_TYPE_S16 && values[WEIGHTS].type == DTN_TYPE_S8 &&
           dtn_cm_are(&values[MULTIPLIERS], 2, DTN_TYPE_S32) && out->type == DTN_TYPE_S16 &&
           dtn_cm_has_size(&values[INPUT], DTN_CM_LIST(2, p->batches, p->in_h, p->in_w, p->in_c)) &&
           dtn_cm_has_size(&values[WEIGHTS], DTN_CM_LIST(p->out_c, p->kernel_h, p->kernel_w, p->in_c / p->groups)) &&
           dtn_cm_has_size(&values[MULTIPLIERS], DTN_CM_LIST(4, p->out_c)) &&
           dtn_cm_has_size(&values[SHIFTS], DTN_CM_LIST(4, p->out_c)) &&
           (p->has_bias == 0 ||
            (is_bias && dtn_cm_has_size(bias, DTN_CM_LIST(bias->type == DTN_TYPE_S64 ? 8 : 4, p->out_c)))) &&
           dtn_cm_has_size(out, DTN_CM_LIST(2, p->batches, p->out_h, p->out_w, p->out_c));
}

/* True for factors that can be computed with: they are constants, which no check has read. */
static bool are_factors(const params_t *p, const int32_t *multipliers, const int32_t *shifts)
{
    for (int32_t i = 0; i < p->out_c; i++) {
        if (!dtn_tfl_is_factor(multipliers[i], shifts[i]) || (p->narrow == 0 && shifts[i] > 14)) {
            return false;
        }
    }
    return true;
}

static int64_t dot(const int16_t *inputs, const int8_t *weights, int32_t count)
{
    int64_t sum = 0;
    for (int32_t at = 0; at < count;) {
        int32_t part = 0;
        for (int32_t end = count - at < CHUNK ? count : at + CHUNK; at < end; at++) {
            part += inputs[at] * weights[at];
        }
        sum += part;
    }
    return sum;
}

/* The window of an output pixel on an image. */
typedef struct {
    const int16_t *image;
    dtn_cm_window_t rows;
    dtn_cm_window_t columns;
} place_t;

static int64_t sum_of(const params_t *p, const place_t *place, const int8_t *weights, int32_t group)
{
    int32_t inputs = p->in_c / p->groups;
    int64_t sum = 0;
    for (int32_t ky = place->rows.first; ky < place->rows.end; ky++) {
        for (int32_t kx = place->columns.first; kx < place->columns.end; kx++) {
            size_t y = (size_t)(place->rows.start + ky * p->dilation_h);
            size_t x = (size_t)(place->columns.start + kx * p->dilation_w);
            const int16_t *from = place->image + (y * (size_t)p->in_w + x) * (size_t)p->in_c + group * inputs;
            sum += dot(from, weights + (size_t)(ky * p->kernel_w + kx) * (size_t)inputs, inputs);
        }
    }
    return sum;
}

/* A sum of 64 bits by a factor whose multiplier has 15 bits. */
static int64_t scaled(int64_t sum, int32_t multiplier, int32_t shift)
{
    int64_t reduced = multiplier < 0x7FFF0000 ? (multiplier + (1 << 15)) >> 16 : 0x7FFF;
    int32_t right = 15 - shift;
    return (sum * reduced + (INT64_C(1) << (right - 1))) >> right;
}

static void pixel(const dtn_operator_call_t *call, const place_t *place, int16_t *out)
{
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *values = call->values, *bias = &values[BIAS];
    const int8_t *weights = (const int8_t *)values[WEIGHTS].data;
    size_t patch = (size_t)p->kernel_h * (size_t)p->kernel_w * (size_t)(p->in_c / p->groups);
    for (int32_t c = 0; c < p->out_c; c++, weights += patch) {
        int64_t sum = sum_of(p, place, weights, c / (p->out_c / p->groups));
        if (p->has_bias == 1) {
            sum += bias->type == DTN_TYPE_S64 ? ((const int64_t *)bias->data)[c] : ((const int32_t *)bias->data)[c];
        }
        int32_t multiplier = ((const int32_t *)values[MULTIPLIERS].data)[c];
        int32_t shift = ((const int32_t *)values[SHIFTS].data)[c];
        int64_t value = p->narrow == 1 ? dtn_cm_requantize((int32_t)(uint32_t)sum, multiplier, shift)
                                       : scaled(sum, multiplier, shift);
        out[c] = (int16_t)(value < p->act_min ? p->act_min : value > p->act_max ? p->act_max : value);
    }
}

int32_t dtn_tfl_convolution_s16(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *values = call->values;
    if (!are_factors(p, (const int32_t *)values[MULTIPLIERS].data, (const int32_t *)values[SHIFTS].data)) {
        return DTN_REASON_OPERATOR;
    }
    place_t place = {.image = (const int16_t *)values[INPUT].data};
    int16_t *out = (int16_t *)values[BIAS + p->has_bias].data;
    for (int32_t b = 0; b < p->batches; b++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            place.rows = dtn_cm_window(oy, p->stride_h, p->pad_h, p->kernel_h, p->dilation_h, p->in_h);
            for (int32_t ox = 0; ox < p->out_w; ox++, out += p->out_c) {
                place.columns = dtn_cm_window(ox, p->stride_w, p->pad_w, p->kernel_w, p->dilation_w, p->in_w);
                pixel(call, &place, out);
            }
        }
        place.image += (size_t)p->in_h * (size_t)p->in_w * (size_t)p->in_c;
    }
    return DTN_OK;
}
