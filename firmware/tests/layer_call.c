#include "layer_call.h"

#include <string.h>

#include "../src/cortex_m/interleaved_weights.h"
#include "../src/cortex_m/packed_weights.h"

const dtn_operator_t layer_operators[LAYER_KINDS] = {
    dtn_cm_quantized_conv2d,           dtn_cm_quantized_depthwise_conv2d,
    dtn_cm_quantized_transpose_conv2d, dtn_cm_quantized_linear,
    dtn_cm_quantized_batch_matmul,     dtn_cm_winograd_conv2d,
    dtn_cm_quantized_conv2d_s4,        dtn_cm_quantized_depthwise_conv2d_s4,
    dtn_cm_quantized_linear_s4,        dtn_cm_interleaved_conv2d,
    dtn_cm_interleaved_linear,         dtn_cm_convolution_s16,
};

static bool is_conv(layer_kind_t kind)
{
    return kind == CONV || kind == PACKED_CONV || kind == INTERLEAVED_CONV;
}

static bool is_depthwise(layer_kind_t kind)
{
    return kind == DEPTHWISE || kind == PACKED_DEPTHWISE;
}

static bool is_linear(layer_kind_t kind)
{
    return kind == LINEAR || kind == PACKED_LINEAR || kind == INTERLEAVED_LINEAR;
}

/* Layers that have a kernel sum as their addend. */
static bool has_sum(layer_kind_t kind)
{
    return kind == PACKED_CONV || kind == PACKED_LINEAR || kind == INTERLEAVED_CONV || kind == INTERLEAVED_LINEAR;
}

/* A weight of the pairs of interleaved rows of INTERLEAVED_CONV, with so many elements in all rows of the kernel. */
static int32_t interleaved_at(const layer_t *layer, int32_t channel, int32_t elements, int32_t at)
{
    const int32_t rows = layer->kind == INTERLEAVED_CONV ? layer->params.conv.kernel_h : 1;
    const int32_t row = elements / rows;
    const size_t first = (size_t)(channel / 2 * rows + at / row) * 4 * dtn_cm_interleaved_words((size_t)row);
    const dtn_tensor_t *weights = &layer->call.values[1];
    const size_t which = (size_t)(channel % 2);
    const size_t k = (size_t)(at % row);
    return weights->type == DTN_TYPE_S16
               ? dtn_cm_interleaved_weight_s16((const int16_t *)weights->data + first, (size_t)row, which, k)
               : dtn_cm_interleaved_weight((const int8_t *)weights->data + first, (size_t)row, which, k);
}

/* The weight of a row of a group of so many rows; packed weights have two rows of a group in a byte. */
static int32_t weight_at(const layer_t *layer, int32_t group, int32_t rows, int32_t row, int32_t elements, int32_t at)
{
    const int8_t *weights = (const int8_t *)layer->call.values[1].data;
    if (layer->kind < PACKED_CONV) {
        return weights[(group * rows + row) * elements + at];
    }
    if (layer->kind > PACKED_LINEAR) {
        return interleaved_at(layer, row, elements, at);
    }
    const int8_t byte = weights[(group * ((rows + 1) / 2) + row / 2) * elements + at];
    return row % 2 == 0 ? dtn_cm_first_weight(byte) : dtn_cm_second_weight(byte);
}

int32_t layer_zero_point(uint64_t *state)
{
    static const int32_t limits[] = {-128, 127, 0};
    int32_t index = test_between(state, 0, 3);
    return index < 3 ? limits[index] : test_between(state, -128, 127);
}

static int32_t a_shift(uint64_t *state)
{
    return test_between(state, 0, 7) == 0 ? test_between(state, -62, 30) : test_between(state, -14, -7);
}

static int32_t a_multiplier(uint64_t *state)
{
    return test_between(state, 0, 7) == 0 ? test_between(state, 0, INT32_MAX) : test_between(state, 1 << 30, INT32_MAX);
}

void layer_add_value(layer_t *layer, bool is_output, uint32_t type, int64_t bytes)
{
    dtn_operator_call_t *call = &layer->call;
    dtn_tensor_t *value = &call->values[call->input_count + call->output_count];
    *value = (dtn_tensor_t){.bytes = (uint32_t)bytes, .type = type};
    *(is_output ? &call->output_count : &call->input_count) += 1;
}

/* Lengths of an axis, so that each convolution has at least one output. */
static int32_t out_of(uint64_t *state, layer_kind_t kind, int32_t in, int32_t kernel, int32_t stride, int32_t pad,
                      int32_t dilation)
{
    return kind == TRANSPOSED ? (in - 1) * stride + kernel - 2 * pad + test_between(state, 0, stride - 1)
                              : (in + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
}

dtn_cm_axis_t layer_random_axis(uint64_t *state, layer_kind_t kind)
{
    dtn_cm_axis_t a = {0};
    a.kernel = test_between(state, 0, 1) == 0 ? 1 : test_between(state, 1, 5);
    a.stride = test_between(state, 1, 3);
    a.dilation = kind == TRANSPOSED ? 1 : test_between(state, 1, 2);
    a.pad = test_between(state, 0, 1) == 0 ? 0 : test_between(state, 0, 3);
    int32_t least = a.dilation * (a.kernel - 1) + 1 - 2 * a.pad;
    a.in = (least < 1 ? 1 : least) + test_between(state, 0, 8);
    if (kind == TRANSPOSED) {
        int32_t most = ((a.in - 1) * a.stride + a.kernel - 1) / 2;
        a.pad = a.pad < most ? a.pad : most;
    }
    a.out = out_of(state, kind, a.in, a.kernel, a.stride, a.pad, a.dilation);
    return a;
}

/* Some rows of a call: of their windows only the first rows may lie before the input, and only the last behind it. */
void layer_random_rows(dtn_cm_windows_t *p, uint64_t *state)
{
    int32_t span = (p->kernel_h - 1) * p->dilation_h;
    p->out_h = test_between(state, 1, 3);
    p->pad_h = test_between(state, 0, span);
    int32_t last = (p->out_h - 1) * p->stride_h - p->pad_h;
    p->in_h = (last < 0 ? 0 : last) + 1 + test_between(state, 0, span);
}

/* Three taps side by side, as most convolutions have. Some maps are large, others one element with wide padding. */
static void make_three_taps(dtn_cm_axis_t *axis, uint64_t *state)
{
    axis->kernel = 3;
    axis->dilation = 1;
    const int32_t size = test_between(state, 0, 7);
    axis->pad = size == 1 ? 3 : axis->pad;
    axis->in = size == 1 ? 1 : axis->in + (size == 0 ? 40 : 2);
    axis->out = out_of(state, CONV, axis->in, axis->kernel, axis->stride, axis->pad, axis->dilation);
}

static void random_convolution(layer_t *layer, uint64_t *state)
{
    dtn_cm_windows_t *p = &layer->params.conv;
    dtn_cm_axis_t y = layer_random_axis(state, layer->kind);
    dtn_cm_axis_t x = layer_random_axis(state, layer->kind);
    const bool are_three = (is_depthwise(layer->kind) || layer->kind == CONV) && test_between(state, 0, 1) == 0;
    if (are_three) {
        make_three_taps(&y, state);
        make_three_taps(&x, state);
    }
    *p = (dtn_cm_windows_t){
        LAYER_AXES(y, x),
    };
    p->batches = test_between(state, 1, 2);
    if (layer->kind != TRANSPOSED && p->batches == 1 && test_between(state, 0, 1) == 1) {
        layer_random_rows(p, state);
    }
    int32_t inputs = is_depthwise(layer->kind) ? 1
                     : are_three               ? 16 << test_between(state, 0, 2)
                                               : test_between(state, 1, 6);
    p->groups = are_three                   ? layer->kind == CONV ? 1 : 4 * test_between(state, 1, 6)
                : is_depthwise(layer->kind) ? test_between(state, 1, 40)
                : is_conv(layer->kind) && layer->kind != INTERLEAVED_CONV ? test_between(state, 1, 2)
                                                                          : 1;
    p->in_c = p->groups * inputs;
    int32_t many = test_between(state, 0, 3) == 0 ? 140 : 36;
    int32_t most = test_between(state, 0, 2) == 0 ? 1 : test_between(state, 0, 1) == 0 ? 6 : many / p->groups + 1;
    p->out_c = p->groups * (layer->kind == PACKED_DEPTHWISE ? 1 : test_between(state, 1, most));
    if (layer->kind == INTERLEAVED_CONV) {
        p->out_c += p->out_c % 2;
    }
    p->in_offset = -layer_zero_point(state);
    p->out_offset = layer_zero_point(state);
    p->act_min = test_between(state, 0, 3) == 0 ? test_between(state, -128, 0) : -128;
    p->act_max = test_between(state, 0, 3) == 0 ? test_between(state, 0, 127) : 127;
    int32_t addend = has_sum(layer->kind) ? 2 : test_between(state, 0, layer->kind == CONV ? 2 : 1);
    p->has_bias = addend == 1;
    p->has_kernel_sum = addend == 2;
    layer->call.param_count = sizeof *p / sizeof(uint32_t);
    int32_t patch = p->kernel_h * p->kernel_w * inputs;
    layer_add_value(layer, false, DTN_TYPE_S8, p->batches * p->in_h * p->in_w * p->in_c);
    const bool is_s16 = layer->kind == INTERLEAVED_CONV && test_between(state, 0, 1) == 0;
    layer_add_value(layer, false, is_s16 ? DTN_TYPE_S16 : DTN_TYPE_S8,
                    layer->kind == INTERLEAVED_CONV
                        ? (is_s16 ? 4 : 2) * p->out_c * p->kernel_h *
                              (int32_t)dtn_cm_interleaved_words((size_t)(p->kernel_w * inputs))
                    : layer->kind == PACKED_CONV      ? p->groups * ((p->out_c / p->groups + 1) / 2) * patch
                    : layer->kind == PACKED_DEPTHWISE ? (patch + 1) / 2 * p->out_c
                                                      : p->out_c * patch);
    for (int32_t i = 0; i < (addend == 0 ? 2 : 3); i++) {
        layer_add_value(layer, false, DTN_TYPE_S32, 4 * p->out_c);
    }
    for (int32_t i = 0; i < (layer->kind == TRANSPOSED ? 2 : 1); i++) {
        layer_add_value(layer, true, DTN_TYPE_U8,
                        test_between(state, 0, 1) == 0 ? test_between(state, 0, 9) : 4 * patch);
    }
    layer_add_value(layer, true, DTN_TYPE_S8, p->batches * p->out_h * p->out_w * p->out_c);
}

static void random_linear(layer_t *layer, uint64_t *state)
{
    int32_t addend = has_sum(layer->kind) ? 2 : test_between(state, 0, 2);
    bool is_wide = test_between(state, 0, 3) == 0;
    dtn_cm_quantized_linear_params_t *p = &layer->params.linear;
    *p = (dtn_cm_quantized_linear_params_t){test_between(state, 1, 5),
                                            test_between(state, 1, is_wide ? 80 : 300),
                                            test_between(state, 1, is_wide ? 140 : 20),
                                            -layer_zero_point(state),
                                            has_sum(layer->kind) ? 0
                                                                 : test_between(state, 0, 1) * -layer_zero_point(state),
                                            layer_zero_point(state),
                                            a_multiplier(state),
                                            a_shift(state),
                                            -128,
                                            127,
                                            addend == 1,
                                            addend == 2};
    if (layer->kind == INTERLEAVED_LINEAR) {
        p->out_features += p->out_features % 2;
        p->in_features = test_between(state, 0, 1) == 0 ? p->in_features : (p->in_features + 3) / 4 * 4;
    }
    layer->call.param_count = sizeof *p / sizeof(uint32_t);
    layer_add_value(layer, false, DTN_TYPE_S8, p->rows * p->in_features);
    layer_add_value(layer, false, DTN_TYPE_S8,
                    layer->kind == INTERLEAVED_LINEAR
                        ? 2 * p->out_features * (int32_t)dtn_cm_interleaved_words((size_t)p->in_features)
                        : (layer->kind == PACKED_LINEAR ? (p->out_features + 1) / 2 : p->out_features) *
                              p->in_features);
    if (addend != 0) {
        layer_add_value(layer, false, DTN_TYPE_S32, 4 * p->out_features);
    }
    layer_add_value(layer, true, DTN_TYPE_S8, p->rows * p->out_features);
}

static void random_matmul(layer_t *layer, uint64_t *state)
{
    dtn_cm_quantized_batch_matmul_params_t *p = &layer->params.matmul;
    *p = (dtn_cm_quantized_batch_matmul_params_t){
        test_between(state, 1, 3),  test_between(state, 1, 5), test_between(state, 1, 300),
        test_between(state, 1, 20), -layer_zero_point(state),  -layer_zero_point(state),
        layer_zero_point(state),    a_multiplier(state),       a_shift(state)};
    layer->call.param_count = sizeof *p / sizeof(uint32_t);
    layer_add_value(layer, false, DTN_TYPE_S8, p->batches * p->rows * p->depth);
    layer_add_value(layer, false, DTN_TYPE_S8, p->batches * p->columns * p->depth);
    layer_add_value(layer, true, DTN_TYPE_U8, test_between(state, 0, 64));
    layer_add_value(layer, true, DTN_TYPE_S8, p->batches * p->rows * p->columns);
}

void layer_random(layer_t *layer, uint64_t *state)
{
    *layer = (layer_t){.kind = (layer_kind_t)test_between(state, 0, LAYER_KINDS - 1)};
    layer->call.params = layer->params.words;
    if (is_linear(layer->kind)) {
        random_linear(layer, state);
    } else if (layer->kind == MATMUL) {
        random_matmul(layer, state);
    } else if (layer->kind == WINOGRAD) {
        layer_random_winograd(layer, state);
    } else if (layer->kind == CONV_S16) {
        layer_random_s16(layer, state);
    } else {
        random_convolution(layer, state);
    }
}

/* Writes the zero that the format has behind an odd number of elements in each interleaved row. */
static void end_interleaved_rows(const layer_t *layer)
{
    const dtn_tensor_t *weights = &layer->call.values[1];
    const dtn_cm_windows_t *p = &layer->params.conv;
    const bool is_conv_row = layer->kind == INTERLEAVED_CONV;
    const int64_t row = is_conv_row ? (int64_t)p->kernel_w * p->in_c : layer->params.linear.in_features;
    const bool is_s16 = weights->type == DTN_TYPE_S16;
    const size_t weight = is_s16 ? sizeof(int16_t) : 1;
    if (row < 1 || row > (int64_t)weights->bytes) {
        return; /* a damaged layer, which is refused */
    }
    const size_t pair = 4 * weight * dtn_cm_interleaved_words((size_t)row);
    for (size_t end = pair; row % 2 != 0 && end <= weights->bytes; end += pair) {
        uint8_t *last = (uint8_t *)weights->data + end;
        memset(last - (is_s16 ? 3 : 2) * weight, 0, weight);
        memset(last - weight, 0, weight);
    }
}

void layer_fill(const layer_t *layer, uint32_t index, uint64_t *state)
{
    const dtn_tensor_t *value = &layer->call.values[index];
    for (uint32_t j = 0; j < value->bytes; j++) {
        ((uint8_t *)value->data)[j] = (uint8_t)test_random(state);
    }
    if (index == 1 && layer->kind > PACKED_LINEAR && layer->kind < CONV_S16) {
        end_interleaved_rows(layer);
    }
    if (layer_is_winograd(layer)) {
        layer_fill_winograd(layer, index, state);
    }
    if (layer->kind == CONV_S16) {
        layer_fill_s16(layer, index, state);
        return;
    }
    bool has_factors = !is_linear(layer->kind) && layer->kind != MATMUL;
    bool is_factor = has_factors && (index == 2 || index == 3);
    if (is_factor && test_between(state, 0, 31) != 0) {
        for (uint32_t j = 0; j < value->bytes / 4; j++) {
            ((int32_t *)value->data)[j] = index == 2 ? a_multiplier(state) : a_shift(state);
        }
    }
}

const dtn_tensor_t *layer_output(const layer_t *layer)
{
    return &layer->call.values[layer->call.input_count + layer->call.output_count - 1];
}

static int8_t finished(int64_t sum, int32_t multiplier, int32_t shift, int32_t offset, int32_t lo, int32_t hi)
{
    int32_t value = dtn_cm_requantize((int32_t)(uint32_t)(uint64_t)sum, multiplier, shift);
    return (int8_t)dtn_cm_clamp(dtn_cm_plus(value, offset), lo, hi);
}

/* The sum of one output of a convolution, position by position. */
static int64_t window_sum(const layer_t *layer, int32_t b, int32_t oy, int32_t ox, int32_t channel)
{
    const dtn_cm_windows_t *p = &layer->params.conv;
    const int8_t *input = (const int8_t *)layer->call.values[0].data;
    int32_t seen = p->in_c / p->groups;
    int32_t outputs = p->out_c / p->groups;
    int32_t first = channel / outputs * seen;
    bool has_addend = p->has_bias + p->has_kernel_sum == 1;
    int64_t sum = has_addend ? ((const int32_t *)layer->call.values[4].data)[channel] : 0;
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        for (int32_t kx = 0; kx < p->kernel_w; kx++) {
            int64_t y = (int64_t)oy * p->stride_h - p->pad_h + (int64_t)ky * p->dilation_h;
            int64_t x = (int64_t)ox * p->stride_w - p->pad_w + (int64_t)kx * p->dilation_w;
            if (layer->kind == TRANSPOSED) {
                y = (int64_t)oy + p->pad_h - ky;
                x = (int64_t)ox + p->pad_w - kx;
                if (y % p->stride_h != 0 || x % p->stride_w != 0) {
                    continue;
                }
                y /= p->stride_h;
                x /= p->stride_w;
            }
            bool is_inside = y >= 0 && y < p->in_h && x >= 0 && x < p->in_w;
            for (int32_t c = 0; c < seen; c++) {
                int64_t at = ((b * p->in_h + y) * p->in_w + x) * p->in_c + first + c;
                int32_t tap = ky * p->kernel_w + kx;
                /* A kernel sum has what the offset adds everywhere. */
                int32_t offset = p->has_kernel_sum == 1 ? 0 : p->in_offset;
                int32_t weight = layer->kind == WINOGRAD ? layer_winograd_weight(layer, channel, tap, c)
                                 : is_depthwise(layer->kind)
                                     ? weight_at(layer, 0, 0, tap, p->out_c, channel)
                                     : weight_at(layer, channel / outputs, outputs, channel % outputs,
                                                 p->kernel_h * p->kernel_w * seen, tap * seen + c);
                sum += (is_inside ? input[at] + offset : offset - p->in_offset) * weight;
            }
        }
    }
    return sum;
}

static void expect_convolution(const layer_t *layer, int8_t *out)
{
    const dtn_cm_windows_t *p = &layer->params.conv;
    const int32_t *multipliers = (const int32_t *)layer->call.values[2].data;
    const int32_t *shifts = (const int32_t *)layer->call.values[3].data;
    for (int32_t b = 0; b < p->batches; b++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            for (int32_t ox = 0; ox < p->out_w; ox++) {
                for (int32_t c = 0; c < p->out_c; c++) {
                    *out++ = finished(window_sum(layer, b, oy, ox, c), multipliers[c], shifts[c], p->out_offset,
                                      p->act_min, p->act_max);
                }
            }
        }
    }
}

static void expect_linear(const layer_t *layer, int8_t *out)
{
    const dtn_cm_quantized_linear_params_t *p = &layer->params.linear;
    const int8_t *input = (const int8_t *)layer->call.values[0].data;
    for (int32_t row = 0; row < p->rows; row++) {
        for (int32_t c = 0; c < p->out_features; c++) {
            int64_t sum = p->has_bias + p->has_kernel_sum == 1 ? ((const int32_t *)layer->call.values[2].data)[c] : 0;
            for (int32_t k = 0; k < p->in_features; k++) {
                int32_t x = input[row * p->in_features + k] + (p->has_kernel_sum == 1 ? 0 : p->in_offset);
                sum += x * (weight_at(layer, 0, 0, c, p->in_features, k) + p->weight_offset);
            }
            *out++ = finished(sum, p->multiplier, p->shift, p->out_offset, p->act_min, p->act_max);
        }
    }
}

static void expect_matmul(const layer_t *layer, int8_t *out)
{
    const dtn_cm_quantized_batch_matmul_params_t *p = &layer->params.matmul;
    const int8_t *a = (const int8_t *)layer->call.values[0].data;
    const int8_t *b = (const int8_t *)layer->call.values[1].data;
    for (int32_t row = 0; row < p->batches * p->rows; row++) {
        for (int32_t c = 0; c < p->columns; c++) {
            int64_t sum = 0;
            for (int32_t k = 0; k < p->depth; k++) {
                int32_t right = b[(row / p->rows * p->columns + c) * p->depth + k] + p->b_offset;
                sum += (a[row * p->depth + k] + p->a_offset) * right;
            }
            *out++ = finished(sum, p->multiplier, p->shift, p->out_offset, INT8_MIN, INT8_MAX);
        }
    }
}

void layer_expect(const layer_t *layer, int8_t *out)
{
    if (is_linear(layer->kind)) {
        expect_linear(layer, out);
    } else if (layer->kind == MATMUL) {
        expect_matmul(layer, out);
    } else if (layer->kind == CONV_S16) {
        layer_expect_s16(layer, out);
    } else {
        expect_convolution(layer, out);
    }
}
