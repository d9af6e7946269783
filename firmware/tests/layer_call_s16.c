#include <string.h>

#include "layer_call.h"

enum { INPUT, WEIGHTS, MULTIPLIERS, SHIFTS, BIAS };

typedef dtn_cm_convolution_s16_params_t params_t;

/* Depthwise, linear or any. */
static void random_channels(params_t *p, uint64_t *state)
{
    int32_t kind = test_between(state, 0, 5);
    int32_t inputs = kind < 2 ? 1 : test_between(state, 1, kind == 2 ? 90 : 12);
    p->groups = kind < 2 ? test_between(state, 1, 30) : kind == 3 ? test_between(state, 1, 3) : 1;
    int32_t outputs = kind == 0 ? 1 : test_between(state, 1, kind < 4 ? 6 : 40);
    p->in_c = p->groups * inputs;
    p->out_c = p->groups * outputs;
}

void layer_random_s16(layer_t *layer, uint64_t *state)
{
    params_t *p = &layer->params.conv_s16;
    const dtn_cm_axis_t one = {.in = 1, .out = 1, .kernel = 1, .stride = 1, .dilation = 1};
    const bool is_linear = test_between(state, 0, 7) == 0;
    const dtn_cm_axis_t y = is_linear ? one : layer_random_axis(state, CONV_S16);
    const dtn_cm_axis_t x = is_linear ? one : layer_random_axis(state, CONV_S16);
    *p = (params_t){
        .batches = test_between(state, 1, is_linear ? 9 : 2),
        LAYER_AXES(y, x),
        .act_min = test_between(state, 0, 1) == 0 ? 0 : test_between(state, INT16_MIN, 0),
        .act_max = test_between(state, 0, 1) == 0 ? INT16_MAX : test_between(state, 0, INT16_MAX),
    };
    random_channels(p, state);
    if (is_linear) {
        p->groups = 1;
        p->in_c = test_between(state, 1, 900);
    }
    layer->seed = (uint32_t)test_random(state);
    layer->call.param_count = sizeof *p / sizeof(uint32_t);
    int32_t patch = p->kernel_h * p->kernel_w * (p->in_c / p->groups);
    layer_add_value(layer, false, DTN_TYPE_S16, 2 * p->batches * p->in_h * p->in_w * p->in_c);
    layer_add_value(layer, false, DTN_TYPE_S8, p->out_c * patch);
    for (int32_t i = 0; i < 3; i++) {
        layer_add_value(layer, false, DTN_TYPE_S32, 4 * p->out_c);
    }
    layer_add_value(layer, true, DTN_TYPE_S16, 2 * p->batches * p->out_h * p->out_w * p->out_c);
}

/* A number of a value: of some layers the results are ties, of some the sums are the largest. */
static int32_t number(const layer_t *layer, uint32_t index, uint64_t *state)
{
    const bool has_ties = layer->seed % 4 == 0;
    switch (index) {
    case MULTIPLIERS:
        return has_ties ? 1 << 21 : test_between(state, test_between(state, 0, 7) == 0 ? 0 : 1 << 21, (1 << 22) - 1);
    case SHIFTS:
        return has_ties                           ? test_between(state, 24, 26)
               : test_between(state, 0, 127) == 0 ? test_between(state, 10, 23)
                                                  : test_between(state, 24, 40);
    default:
        return has_ties ? 512 * test_between(state, -20000, 20000)
                        : (int32_t)(uint32_t)test_random(state) >> test_between(state, 0, 24);
    }
}

void layer_fill_s16(const layer_t *layer, uint32_t index, uint64_t *state)
{
    const dtn_tensor_t *value = &layer->call.values[index];
    const bool is_largest = layer->seed % 4 == 1;
    if (index == INPUT && is_largest) {
        for (uint32_t i = 0; i + 1 < value->bytes; i += 2) {
            const int16_t least = INT16_MIN;
            memcpy((uint8_t *)value->data + i, &least, sizeof least);
        }
    } else if (index == WEIGHTS && is_largest) {
        memset(value->data, INT8_MIN, value->bytes);
    } else if (index >= MULTIPLIERS && index <= BIAS) {
        for (uint32_t i = 0; i + 3 < value->bytes; i += 4) {
            const int32_t own = number(layer, index, state);
            memcpy((uint8_t *)value->data + i, &own, sizeof own);
        }
    }
}

/* The sum of one output, position by position. */
static int64_t window_sum(const layer_t *layer, int32_t b, int32_t oy, int32_t ox, int32_t channel)
{
    const params_t *p = &layer->params.conv_s16;
    const int16_t *input = (const int16_t *)layer->call.values[INPUT].data;
    const int8_t *weights = (const int8_t *)layer->call.values[WEIGHTS].data;
    int32_t seen = p->in_c / p->groups;
    int32_t first = channel / (p->out_c / p->groups) * seen;
    int64_t sum = 0;
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        for (int32_t kx = 0; kx < p->kernel_w; kx++) {
            int64_t y = (int64_t)oy * p->stride_h - p->pad_h + (int64_t)ky * p->dilation_h;
            int64_t x = (int64_t)ox * p->stride_w - p->pad_w + (int64_t)kx * p->dilation_w;
            if (y < 0 || y >= p->in_h || x < 0 || x >= p->in_w) {
                continue;
            }
            for (int32_t c = 0; c < seen; c++) {
                int64_t at = ((b * p->in_h + y) * p->in_w + x) * p->in_c + first + c;
                int64_t tap = ((channel * p->kernel_h + ky) * p->kernel_w + kx) * seen + c;
                sum += input[at] * weights[tap];
            }
        }
    }
    return sum;
}

/* The nearest number, of two the even one. */
static int64_t nearest(int64_t value, int32_t shift)
{
    int64_t unit = INT64_C(1) << shift;
    int64_t floor = value / unit - (value % unit < 0 ? 1 : 0);
    int64_t twice = 2 * (value - floor * unit);
    return floor + (twice > unit || (twice == unit && floor % 2 != 0) ? 1 : 0);
}

void layer_expect_s16(const layer_t *layer, int8_t *out)
{
    const params_t *p = &layer->params.conv_s16;
    const dtn_tensor_t *values = layer->call.values;
    for (int32_t b = 0; b < p->batches; b++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            for (int32_t ox = 0; ox < p->out_w; ox++) {
                for (int32_t c = 0; c < p->out_c; c++) {
                    int32_t shift = ((const int32_t *)values[SHIFTS].data)[c];
                    int64_t value = window_sum(layer, b, oy, ox, c) * ((const int32_t *)values[MULTIPLIERS].data)[c];
                    value += ((const int32_t *)values[BIAS].data)[c] * (INT64_C(1) << (shift - 10));
                    value = nearest(value, shift);
                    value = value < p->act_min ? p->act_min : value > p->act_max ? p->act_max : value;
                    const int16_t own = (int16_t)value;
                    memcpy(out, &own, sizeof own);
                    out += sizeof own;
                }
            }
        }
    }
}
