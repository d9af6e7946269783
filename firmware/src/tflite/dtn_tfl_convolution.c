#include "../cortex_m/windows.h"
#include "integer_common.h"

typedef dtn_tfl_convolution_params_t params_t;

enum { INPUT, WEIGHTS, MULTIPLIERS, SHIFTS, BIAS };

/* Products that a sum of 32 bits holds: of int16 and a difference of int8. */
enum { CHUNK = 128 };

static bool is_flag(int32_t word)
{
    return word == 0 || word == 1;
}

static bool are_numbers(const params_t *p, uint32_t type)
{
    const int32_t lengths[] = {p->batches,  p->in_h,       p->in_w,       p->in_c,     p->out_h,
                               p->out_w,    p->out_c,      p->kernel_h,   p->kernel_w, p->stride_h,
                               p->stride_w, p->dilation_h, p->dilation_w, p->groups};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        if (lengths[i] < 1 || lengths[i] > DTN_CM_MAX_DIMENSION) {
            return false;
        }
    }
    /* All positions of windows after the map are padding. */
    return p->pad_h >= 0 && p->pad_h <= DTN_CM_MAX_DIMENSION && p->pad_w >= 0 && p->pad_w <= DTN_CM_MAX_DIMENSION &&
           dtn_tfl_is_range(type, p->act_min, p->act_max) && dtn_tfl_holds(type, p->in_zp) &&
           dtn_tfl_holds(type, p->out_zp) && (type == DTN_TYPE_S8 || (p->in_zp == 0 && p->out_zp == 0)) &&
           dtn_cm_is_s8(p->weight_zp) && p->in_c % p->groups == 0 && p->out_c % p->groups == 0 && is_flag(p->narrow) &&
           is_flag(p->has_bias);
}

static bool is_valid(const dtn_operator_call_t *call)
{
    uint32_t type = call->values[INPUT].type;
    if (call->param_count != sizeof(params_t) / sizeof(uint32_t) || !dtn_tfl_is_activation(type)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    int32_t item = (int32_t)dtn_tfl_item(type);
    if (!are_numbers(p, type) || call->input_count != (uint32_t)(BIAS + p->has_bias) || call->output_count != 1) {
        return false;
    }
    const dtn_tensor_t *values = call->values, *bias = &values[BIAS], *out = &values[BIAS + p->has_bias];
    bool is_bias = bias->type == DTN_TYPE_S32 || (bias->type == DTN_TYPE_S64 && p->narrow == 0);
    return values[WEIGHTS].type == DTN_TYPE_S8 && dtn_cm_are(&values[MULTIPLIERS], 2, DTN_TYPE_S32) &&
           out->type == type &&
           dtn_cm_has_size(&values[INPUT], DTN_CM_LIST(item, p->batches, p->in_h, p->in_w, p->in_c)) &&
           dtn_cm_has_size(&values[WEIGHTS], DTN_CM_LIST(p->out_c, p->kernel_h, p->kernel_w, p->in_c / p->groups)) &&
           dtn_cm_has_size(&values[MULTIPLIERS], DTN_CM_LIST(4, p->out_c)) &&
           dtn_cm_has_size(&values[SHIFTS], DTN_CM_LIST(4, p->out_c)) &&
           (p->has_bias == 0 ||
            (is_bias && dtn_cm_has_size(bias, DTN_CM_LIST(bias->type == DTN_TYPE_S64 ? 8 : 4, p->out_c)))) &&
           dtn_cm_has_size(out, DTN_CM_LIST(item, p->batches, p->out_h, p->out_w, p->out_c));
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

static int64_t dot(const params_t *p, const dtn_tensor_t *in, size_t first, const int8_t *weights, int32_t count)
{
    int64_t sum = 0;
    for (int32_t at = 0; at < count;) {
        int32_t part = 0;
        for (int32_t end = count - at < CHUNK ? count : at + CHUNK; at < end; at++) {
            part += (dtn_tfl_at(in, first + (size_t)at) - p->in_zp) * (weights[at] - p->weight_zp);
        }
        sum += part;
    }
    return sum;
}

/* The window of an output pixel on an image. */
typedef struct {
    size_t image; /* its first element */
    dtn_cm_window_t rows;
    dtn_cm_window_t columns;
} place_t;

static int64_t sum_of(const dtn_operator_call_t *call, const place_t *place, const int8_t *weights, int32_t group)
{
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    int32_t inputs = p->in_c / p->groups;
    int64_t sum = 0;
    for (int32_t ky = place->rows.first; ky < place->rows.end; ky++) {
        for (int32_t kx = place->columns.first; kx < place->columns.end; kx++) {
            size_t y = (size_t)(place->rows.start + ky * p->dilation_h);
            size_t x = (size_t)(place->columns.start + kx * p->dilation_w);
            size_t from = place->image + (y * (size_t)p->in_w + x) * (size_t)p->in_c + (size_t)(group * inputs);
            const int8_t *tap = weights + (size_t)(ky * p->kernel_w + kx) * (size_t)inputs;
            sum += dot(p, &call->values[INPUT], from, tap, inputs);
        }
    }
    return sum;
}

static void pixel(const dtn_operator_call_t *call, const place_t *place, size_t at)
{
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *values = call->values, *bias = &values[BIAS];
    const int8_t *weights = (const int8_t *)values[WEIGHTS].data;
    size_t patch = (size_t)p->kernel_h * (size_t)p->kernel_w * (size_t)(p->in_c / p->groups);
    for (int32_t c = 0; c < p->out_c; c++, weights += patch) {
        int64_t sum = sum_of(call, place, weights, c / (p->out_c / p->groups));
        if (p->has_bias == 1) {
            bool is_wide = bias->type == DTN_TYPE_S64;
            sum = dtn_tfl_wide_plus(sum, is_wide ? ((const int64_t *)bias->data)[c] : ((const int32_t *)bias->data)[c]);
        }
        int32_t multiplier = ((const int32_t *)values[MULTIPLIERS].data)[c];
        int32_t shift = ((const int32_t *)values[SHIFTS].data)[c];
        int64_t value = p->narrow == 1 ? dtn_cm_requantize((int32_t)(uint32_t)sum, multiplier, shift)
                                       : dtn_tfl_wide_scaled(sum, multiplier, shift);
        value += p->out_zp;
        value = value < p->act_min ? p->act_min : value > p->act_max ? p->act_max : value;
        dtn_tfl_put(&values[BIAS + p->has_bias], at + (size_t)c, (int32_t)value);
    }
}

int32_t dtn_tfl_convolution(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *values = call->values;
    if (!are_factors(p, (const int32_t *)values[MULTIPLIERS].data, (const int32_t *)values[SHIFTS].data)) {
        return DTN_REASON_OPERATOR;
    }
    place_t place = {.image = 0};
    size_t out = 0;
    for (int32_t b = 0; b < p->batches; b++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            place.rows = dtn_cm_window(oy, p->stride_h, p->pad_h, p->kernel_h, p->dilation_h, p->in_h);
            for (int32_t ox = 0; ox < p->out_w; ox++, out += (size_t)p->out_c) {
                place.columns = dtn_cm_window(ox, p->stride_w, p->pad_w, p->kernel_w, p->dilation_w, p->in_w);
                pixel(call, &place, out);
            }
        }
        place.image += (size_t)p->in_h * (size_t)p->in_w * (size_t)p->in_c;
    }
    return DTN_OK;
}
