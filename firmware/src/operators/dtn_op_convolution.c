#include "strided_iterator.h"

typedef dtn_op_convolution_params_t params_t;

/* Maximum of dimensions, strides, dilations and padding: a position of the input has less than 32 bits. */
enum { MOST = INT16_MAX };

enum { BATCH = 0, CHANNEL = 1, ROW = 2, COLUMN = 3, RANK = 4 };

static bool is_positive(const int32_t *numbers, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (numbers[i] < 1 || numbers[i] > MOST) {
            return false;
        }
    }
    return true;
}

static bool is_valid(const dtn_operator_call_t *call)
{
    const params_t *p = (const params_t *)(const void *)call->params;
    if (call->param_count != sizeof(params_t) / sizeof(uint32_t) || call->output_count != 1 ||
        call->input_count != 2U + (p->has_bias != 0)) {
        return false;
    }
    for (uint32_t i = 0; i < call->input_count + 1; i++) {
        if (call->values[i].type != DTN_TYPE_F32) {
            return false;
        }
    }
    const int32_t sizes[] = {p->groups,   p->kernel_h,   p->kernel_w,  p->stride_h,
                             p->stride_w, p->dilation_h, p->dilation_w};
    if (p->pad_h < 0 || p->pad_h > MOST || p->pad_w < 0 || p->pad_w > MOST ||
        !is_positive(sizes, sizeof sizes / sizeof sizes[0]) || !is_positive(p->input, RANK) ||
        !is_positive(p->output, RANK) || p->input[BATCH] != p->output[BATCH] || p->input[CHANNEL] % p->groups != 0 ||
        p->output[CHANNEL] % p->groups != 0) {
        return false;
    }
    const int32_t weights[RANK] = {p->output[CHANNEL], p->input[CHANNEL] / p->groups, p->kernel_h, p->kernel_w};
    const dtn_tensor_t *output = &call->values[call->input_count];
    bool bias = p->has_bias == 0 || dtn_tensor_elements(&call->values[2]) == (uint32_t)p->output[CHANNEL];
    return bias && dtn_dims_cover(weights, RANK, dtn_tensor_elements(&call->values[1])) &&
           dtn_strides_fit(p->input, p->input_strides, RANK, dtn_tensor_elements(&call->values[0])) &&
           dtn_strides_fit(weights, p->weight_strides, RANK, dtn_tensor_elements(&call->values[1])) &&
           dtn_dims_cover(p->output, RANK, dtn_tensor_elements(output)) &&
           dtn_strides_fit(p->output, p->output_strides, RANK, dtn_tensor_elements(output));
}

/* The operands of one output element: start of its batch and group in the input, of its channel in the weights, and its
 * position. */
typedef struct {
    const params_t *p;
    const float *x;
    const float *w;
    int32_t depth;
    int32_t row;
    int32_t column;
} window_t;

/* The row or column of the input under a kernel position, or -1 for none. */
static int32_t source(int32_t position, int32_t offset, int32_t stride, int32_t size, bool transposed)
{
    int32_t at = transposed ? position - offset : position * stride + offset;
    if (at < 0 || (transposed && at % stride != 0)) {
        return -1;
    }
    at = transposed ? at / stride : at;
    return at < size ? at : -1;
}

static int32_t source_row(const window_t *window, int32_t ky)
{
    const params_t *p = window->p;
    return source(window->row, ky * p->dilation_h - p->pad_h, p->stride_h, p->input[ROW], p->transposed != 0);
}

static int32_t source_column(const window_t *window, int32_t kx)
{
    const params_t *p = window->p;
    return source(window->column, kx * p->dilation_w - p->pad_w, p->stride_w, p->input[COLUMN], p->transposed != 0);
}

static float product(const window_t *window, int32_t channel, int32_t y, int32_t x, int32_t ky, int32_t kx)
{
    const int32_t *in = window->p->input_strides;
    const int32_t *weights = window->p->weight_strides;
    return window->x[channel * in[CHANNEL] + y * in[ROW] + x * in[COLUMN]] *
           window->w[channel * weights[CHANNEL] + ky * weights[ROW] + kx * weights[COLUMN]];
}

/* Sums channels, rows and columns in this order. */
static float plain(const window_t *window)
{
    float sum = 0.0F;
    for (int32_t channel = 0; channel < window->depth; channel++) {
        for (int32_t ky = 0; ky < window->p->kernel_h; ky++) {
            int32_t y = source_row(window, ky);
            for (int32_t kx = 0; y >= 0 && kx < window->p->kernel_w; kx++) {
                int32_t x = source_column(window, kx);
                sum += x >= 0 ? product(window, channel, y, x, ky, kx) : 0.0F;
            }
        }
    }
    return sum;
}

/* Sums the input's rows, columns and channels in this order: the first are under the last of the kernel. */
static float transposed(const window_t *window, float sum)
{
    for (int32_t ky = window->p->kernel_h; ky-- > 0;) {
        int32_t y = source_row(window, ky);
        for (int32_t kx = window->p->kernel_w; y >= 0 && kx-- > 0;) {
            int32_t x = source_column(window, kx);
            for (int32_t channel = 0; x >= 0 && channel < window->depth; channel++) {
                sum += product(window, channel, y, x, ky, kx);
            }
        }
    }
    return sum;
}

static void run(const dtn_operator_call_t *call)
{
    const params_t *p = (const params_t *)(const void *)call->params;
    float *output = (float *)call->values[call->input_count].data;
    int32_t breadth = p->output[CHANNEL] / p->groups;
    window_t window = {.p = p, .depth = p->input[CHANNEL] / p->groups};
    const int32_t dims[DTN_ITERATOR_RANK] = {1, p->output[0], p->output[1], p->output[2], p->output[3]};
    const int32_t *s = p->output_strides;
    const int32_t strides[DTN_ITERATOR_RANK] = {0, s[0], s[1], s[2], s[3]};
    dtn_iterator_t at = {{0}, 0};
    for (uint32_t left = dtn_tensor_elements(&call->values[call->input_count]); left != 0; left--) {
        int32_t channel = at.at[1 + CHANNEL];
        window.x = (const float *)call->values[0].data + at.at[1 + BATCH] * p->input_strides[BATCH] +
                   channel / breadth * window.depth * p->input_strides[CHANNEL];
        window.w = (const float *)call->values[1].data + channel * p->weight_strides[BATCH];
        window.row = at.at[1 + ROW];
        window.column = at.at[1 + COLUMN];
        float bias = p->has_bias != 0 ? ((const float *)call->values[2].data)[channel] : 0.0F;
        output[at.offset] = p->transposed != 0 ? transposed(&window, bias) : plain(&window) + bias;
        dtn_iterator_next(&at, dims, strides);
    }
}

int32_t dtn_op_convolution(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    run(call);
    return DTN_OK;
}
