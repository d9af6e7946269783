/*
 * Random calls of the Cortex-M layers, most of them damaged: what a check lets through must run within its values, each
 * of which is a heap block of its own for the sanitizers to watch, and give what a plain loop gives.
 */
#include <stdlib.h>
#include <string.h>

#include "../src/cortex_m/windows.h"
#include "test.h"

typedef dtn_cm_quantized_linear_params_t linear_t;
typedef dtn_cm_quantized_batch_matmul_params_t matmul_t;

/* What a layer is, whatever its operator is called. */
typedef enum { CONV, DEPTHWISE, TRANSPOSED, LINEAR, MATMUL, KINDS } kind_t;

static const dtn_operator_t OPERATORS[KINDS] = {
    dtn_cm_quantized_conv2d, dtn_cm_quantized_depthwise_conv2d, dtn_cm_quantized_transpose_conv2d,
    dtn_cm_quantized_linear, dtn_cm_quantized_batch_matmul,
};

enum { MAX_WORDS = 24 };

typedef struct {
    kind_t kind;
    union {
        uint32_t words[MAX_WORDS];
        dtn_cm_windows_t conv;
        linear_t linear;
        matmul_t matmul;
    } params;
    dtn_operator_call_t call;
    void *blocks[DTN_MAX_OPERATOR_VALUES]; /* that the values lie in */
} layer_t;

static uint64_t state;

static int32_t between(int32_t lo, int32_t hi)
{
    return test_between(&state, lo, hi);
}

static int32_t zero_point(void)
{
    static const int32_t limits[] = {-128, 127, 0};
    int32_t index = between(0, 3);
    return index < 3 ? limits[index] : between(-128, 127);
}

static int32_t a_shift(void)
{
    return between(0, 7) == 0 ? between(-62, 30) : between(-14, -7);
}

static int32_t a_multiplier(void)
{
    return between(0, 7) == 0 ? between(0, INT32_MAX) : between(1 << 30, INT32_MAX);
}

static void add_value(layer_t *layer, bool is_output, uint32_t type, int64_t bytes)
{
    dtn_operator_call_t *call = &layer->call;
    dtn_tensor_t *value = &call->values[call->input_count + call->output_count];
    *value = (dtn_tensor_t){.bytes = (uint32_t)bytes, .type = type};
    *(is_output ? &call->output_count : &call->input_count) += 1;
}

/* Lengths of an axis, so that each convolution has at least one output. */
static int32_t out_of(kind_t kind, int32_t in, int32_t kernel, int32_t stride, int32_t pad, int32_t dilation)
{
    return kind == TRANSPOSED ? (in - 1) * stride + kernel - 2 * pad + between(0, stride - 1)
                              : (in + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
}

static void random_axis(kind_t kind, int32_t *in, int32_t *out, int32_t *kernel, int32_t *stride, int32_t *pad,
                        int32_t *dilation)
{
    *kernel = between(0, 1) == 0 ? 1 : between(1, 4);
    *stride = between(1, 3);
    *dilation = kind == TRANSPOSED ? 1 : between(1, 2);
    *pad = between(0, 1) == 0 ? 0 : between(0, 3);
    int32_t least = *dilation * (*kernel - 1) + 1 - 2 * *pad;
    *in = (least < 1 ? 1 : least) + between(0, 4);
    if (kind == TRANSPOSED) {
        int32_t room = ((*in - 1) * *stride + *kernel - 1) / 2;
        *pad = *pad < room ? *pad : room;
    }
    *out = out_of(kind, *in, *kernel, *stride, *pad, *dilation);
}

static void random_convolution(layer_t *layer)
{
    dtn_cm_windows_t *p = &layer->params.conv;
    random_axis(layer->kind, &p->in_h, &p->out_h, &p->kernel_h, &p->stride_h, &p->pad_h, &p->dilation_h);
    random_axis(layer->kind, &p->in_w, &p->out_w, &p->kernel_w, &p->stride_w, &p->pad_w, &p->dilation_w);
    p->batches = between(1, 2);
    int32_t inputs = layer->kind == DEPTHWISE ? 1 : between(1, 6);
    p->groups = layer->kind == DEPTHWISE ? between(1, 40) : layer->kind == CONV ? between(1, 2) : 1;
    p->in_c = p->groups * inputs;
    p->out_c = p->groups * between(1, between(0, 1) == 0 ? 1 : 6);
    p->in_offset = -zero_point();
    p->out_offset = zero_point();
    p->act_min = between(0, 3) == 0 ? between(-128, 0) : -128;
    p->act_max = between(0, 3) == 0 ? between(0, 127) : 127;
    int32_t addend = between(0, layer->kind == CONV ? 2 : 1);
    p->has_bias = addend == 1;
    p->has_kernel_sum = addend == 2;
    layer->call.param_count = sizeof *p / sizeof(uint32_t);
    int32_t patch = p->kernel_h * p->kernel_w * inputs;
    add_value(layer, false, DTN_TYPE_S8, p->batches * p->in_h * p->in_w * p->in_c);
    add_value(layer, false, DTN_TYPE_S8, p->out_c * patch);
    for (int32_t i = 0; i < (addend == 0 ? 2 : 3); i++) {
        add_value(layer, false, DTN_TYPE_S32, 4 * p->out_c);
    }
    for (int32_t i = 0; i < (layer->kind == TRANSPOSED ? 2 : 1); i++) {
        add_value(layer, true, DTN_TYPE_U8, between(0, 1) == 0 ? between(0, 9) : 4 * patch);
    }
    add_value(layer, true, DTN_TYPE_S8, p->batches * p->out_h * p->out_w * p->out_c);
}

static void random_linear(layer_t *layer)
{
    int32_t addend = between(0, 2);
    linear_t *p = &layer->params.linear;
    *p = (linear_t){between(1, 5), between(1, 300), between(1, 20), -zero_point(), between(0, 1) * -zero_point(),
                    zero_point(),  a_multiplier(),  a_shift(),      -128,          127,
                    addend == 1,   addend == 2};
    layer->call.param_count = sizeof *p / sizeof(uint32_t);
    add_value(layer, false, DTN_TYPE_S8, p->rows * p->in_features);
    add_value(layer, false, DTN_TYPE_S8, p->out_features * p->in_features);
    if (addend != 0) {
        add_value(layer, false, DTN_TYPE_S32, 4 * p->out_features);
    }
    add_value(layer, true, DTN_TYPE_S8, p->rows * p->out_features);
}

static void random_matmul(layer_t *layer)
{
    matmul_t *p = &layer->params.matmul;
    *p = (matmul_t){between(1, 3), between(1, 5), between(1, 300), between(1, 20), -zero_point(),
                    -zero_point(), zero_point(),  a_multiplier(),  a_shift()};
    layer->call.param_count = sizeof *p / sizeof(uint32_t);
    add_value(layer, false, DTN_TYPE_S8, p->batches * p->rows * p->depth);
    add_value(layer, false, DTN_TYPE_S8, p->batches * p->columns * p->depth);
    add_value(layer, true, DTN_TYPE_U8, between(0, 64));
    add_value(layer, true, DTN_TYPE_S8, p->batches * p->rows * p->columns);
}

/* Changes a word, a size, a type or a count. */
static void damage(layer_t *layer)
{
    dtn_operator_call_t *call = &layer->call;
    uint32_t values = call->input_count + call->output_count;
    dtn_tensor_t *value = &call->values[between(0, (int32_t)values - 1)];
    uint32_t *word = &layer->params.words[between(0, (int32_t)call->param_count - 1)];
    switch (between(0, 9)) {
    case 0:
        value->bytes = value->bytes == 0 || between(0, 1) == 0 ? value->bytes + 1 : value->bytes - 1;
        break;
    case 1:
        value->type = (uint32_t)between(0, 3);
        break;
    case 2:
        call->param_count += between(0, 1) == 0 ? 1U : UINT32_MAX;
        break;
    case 3:
        call->input_count -= 1;
        call->output_count += 1;
        break;
    case 4:
        *word = (uint32_t)test_random(&state);
        break;
    case 5:
        *word ^= UINT32_C(1) << between(0, 31);
        break;
    default:
        *word += (uint32_t)between(-3, 3);
        break;
    }
}

static void fill(layer_t *layer)
{
    dtn_operator_call_t *call = &layer->call;
    for (uint32_t i = 0; i < call->input_count + call->output_count; i++) {
        dtn_tensor_t *value = &call->values[i];
        /* ExecuTorch's runtime may start a scratch of bytes anywhere; behind the factors there is one. */
        size_t start = i > 3 && value->type == DTN_TYPE_U8 ? (size_t)between(0, 4) : 0;
        layer->blocks[i] = malloc(start + value->bytes);
        value->data = (uint8_t *)layer->blocks[i] + start;
        for (uint32_t j = 0; j < value->bytes; j++) {
            ((uint8_t *)value->data)[j] = (uint8_t)test_random(&state);
        }
        if (layer->kind <= TRANSPOSED && (i == 2 || i == 3) && between(0, 31) != 0) {
            for (uint32_t j = 0; j < value->bytes / 4; j++) {
                ((int32_t *)value->data)[j] = i == 2 ? a_multiplier() : a_shift();
            }
        }
    }
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
    const int8_t *weights = (const int8_t *)layer->call.values[1].data;
    int32_t seen = p->in_c / p->groups;
    int32_t first = channel / (p->out_c / p->groups) * seen;
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
                int64_t tap = layer->kind == DEPTHWISE ? (ky * p->kernel_w + kx) * p->out_c + channel
                                                       : ((channel * p->kernel_h + ky) * p->kernel_w + kx) * seen + c;
                /* A kernel sum has what the offset adds everywhere. */
                int32_t offset = p->has_kernel_sum == 1 ? 0 : p->in_offset;
                sum += (is_inside ? input[at] + offset : offset - p->in_offset) * weights[tap];
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
    const linear_t *p = &layer->params.linear;
    const int8_t *input = (const int8_t *)layer->call.values[0].data;
    const int8_t *weights = (const int8_t *)layer->call.values[1].data;
    for (int32_t row = 0; row < p->rows; row++) {
        for (int32_t c = 0; c < p->out_features; c++) {
            int64_t sum = p->has_bias + p->has_kernel_sum == 1 ? ((const int32_t *)layer->call.values[2].data)[c] : 0;
            for (int32_t k = 0; k < p->in_features; k++) {
                int32_t x = input[row * p->in_features + k] + (p->has_kernel_sum == 1 ? 0 : p->in_offset);
                sum += x * (weights[c * p->in_features + k] + p->weight_offset);
            }
            *out++ = finished(sum, p->multiplier, p->shift, p->out_offset, p->act_min, p->act_max);
        }
    }
}

static void expect_matmul(const layer_t *layer, int8_t *out)
{
    const matmul_t *p = &layer->params.matmul;
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

static void expect(const layer_t *layer, int8_t *out)
{
    if (layer->kind == LINEAR) {
        expect_linear(layer, out);
    } else if (layer->kind == MATMUL) {
        expect_matmul(layer, out);
    } else {
        expect_convolution(layer, out);
    }
}

/* True when the call ran. */
static bool one_call(uint64_t seed)
{
    state = seed * UINT64_C(0x9E3779B97F4A7C15);
    layer_t layer = {.kind = (kind_t)between(0, KINDS - 1)};
    layer.call.params = layer.params.words;
    if (layer.kind == LINEAR) {
        random_linear(&layer);
    } else if (layer.kind == MATMUL) {
        random_matmul(&layer);
    } else {
        random_convolution(&layer);
    }
    bool damaged = between(0, 3) != 0;
    for (int32_t i = damaged ? between(1, 3) : 0; i > 0; i--) {
        damage(&layer);
    }
    fill(&layer);
    dtn_operator_call_t *call = &layer.call;
    bool ran = false;
    if (OPERATORS[layer.kind](call, DTN_PHASE_CHECK) == DTN_OK) {
        ran = OPERATORS[layer.kind](call, DTN_PHASE_RUN) == DTN_OK;
    } else {
        CHECK(damaged, "seed %" PRIu64 " is refused", seed);
    }
    if (ran) {
        const dtn_tensor_t *output = &call->values[call->input_count + call->output_count - 1];
        int8_t *expected = (int8_t *)malloc(output->bytes);
        expect(&layer, expected);
        CHECK(memcmp(expected, output->data, output->bytes) == 0, "seed %" PRIu64 " computes something else", seed);
        free(expected);
    }
    for (uint32_t i = 0; i < call->input_count + call->output_count; i++) {
        free(layer.blocks[i]);
    }
    return ran;
}

int main(int count, char **arguments)
{
    return test_seeds(count, arguments, one_call, 75);
}
