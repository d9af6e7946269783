#include "strided_iterator.h"

typedef dtn_op_max_pool2d_params_t params_t;

/* Maximum of dimensions, strides, dilations and padding: a position of the input has less than 32 bits. */
enum { MOST = INT16_MAX };

enum { BATCH = 0, CHANNEL = 1, ROW = 2, COLUMN = 3, RANK = 4 };

static bool is_within(const int32_t *numbers, uint32_t count, int32_t least)
{
    for (uint32_t i = 0; i < count; i++) {
        if (numbers[i] < least || numbers[i] > MOST) {
            return false;
        }
    }
    return true;
}

static bool is_valid(const dtn_operator_call_t *call)
{
    const params_t *p = (const params_t *)(const void *)call->params;
    if (call->input_count != 1 || call->output_count != 2 || call->param_count != sizeof(params_t) / sizeof(uint32_t)) {
        return false;
    }
    const dtn_tensor_t *input = &call->values[0];
    const dtn_tensor_t *indices = &call->values[1];
    const dtn_tensor_t *output = &call->values[2];
    uint32_t elements = dtn_tensor_elements(output);
    const int32_t sizes[] = {p->kernel_h, p->kernel_w, p->stride_h, p->stride_w, p->dilation_h, p->dilation_w};
    const int32_t pads[] = {p->pad_h, p->pad_w};
    return (input->type == DTN_TYPE_F32 || input->type == DTN_TYPE_S8) && output->type == input->type &&
           indices->type == DTN_TYPE_S64 && indices->bytes / sizeof(int64_t) == elements &&
           is_within(sizes, sizeof sizes / sizeof sizes[0], 1) && is_within(pads, 2, 0) &&
           is_within(p->input, RANK, 1) && is_within(p->output, RANK, 1) && p->input[BATCH] == p->output[BATCH] &&
           p->input[CHANNEL] == p->output[CHANNEL] &&
           /* A window larger than the padded image would make the work unbounded. */
           (p->kernel_h - 1) * p->dilation_h < p->input[ROW] + 2 * p->pad_h &&
           (p->kernel_w - 1) * p->dilation_w < p->input[COLUMN] + 2 * p->pad_w &&
           dtn_strides_fit(p->input, p->input_strides, RANK, dtn_tensor_elements(input)) &&
           dtn_dims_cover(p->output, RANK, elements) && dtn_strides_fit(p->output, p->output_strides, RANK, elements);
}

static bool is_larger(const dtn_tensor_t *input, int32_t a, int32_t b)
{
    if (input->type == DTN_TYPE_S8) {
        return ((const int8_t *)input->data)[a] > ((const int8_t *)input->data)[b];
    }
    return ((const float *)input->data)[a] > ((const float *)input->data)[b];
}

/* Position in its plane, which starts at `plane`, of the largest element under the window, or -1. */
static int32_t largest(const dtn_tensor_t *input, const params_t *p, int32_t plane, int32_t row, int32_t column)
{
    int32_t best = -1;
    int32_t best_at = 0;
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        int32_t y = row * p->stride_h + ky * p->dilation_h - p->pad_h;
        for (int32_t kx = 0; y >= 0 && y < p->input[ROW] && kx < p->kernel_w; kx++) {
            int32_t x = column * p->stride_w + kx * p->dilation_w - p->pad_w;
            if (x < 0 || x >= p->input[COLUMN]) {
                continue;
            }
            int32_t at = plane + y * p->input_strides[ROW] + x * p->input_strides[COLUMN];
            if (best < 0 || is_larger(input, at, best_at)) {
                best = y * p->input[COLUMN] + x;
                best_at = at;
            }
        }
    }
    return best;
}

static void run(const dtn_operator_call_t *call)
{
    const params_t *p = (const params_t *)(const void *)call->params;
    const dtn_tensor_t *input = &call->values[0];
    int64_t *indices = (int64_t *)call->values[1].data;
    uint8_t *output = (uint8_t *)call->values[2].data;
    uint32_t item = dtn_element_bytes(input->type);
    const int32_t dims[DTN_ITERATOR_RANK] = {1, p->output[0], p->output[1], p->output[2], p->output[3]};
    const int32_t *s = p->output_strides;
    const int32_t strides[DTN_ITERATOR_RANK] = {0, s[0], s[1], s[2], s[3]};
    dtn_iterator_t at = {{0}, 0};
    for (uint32_t left = dtn_tensor_elements(&call->values[2]); left != 0; left--) {
        int32_t plane = at.at[1 + BATCH] * p->input_strides[BATCH] + at.at[1 + CHANNEL] * p->input_strides[CHANNEL];
        int32_t best = largest(input, p, plane, at.at[1 + ROW], at.at[1 + COLUMN]);
        indices[at.offset] = best;
        /* A window outside the map, which no pool has, leaves its element unchanged. */
        if (best >= 0) {
            int32_t from = plane + best / p->input[COLUMN] * p->input_strides[ROW] +
                           best % p->input[COLUMN] * p->input_strides[COLUMN];
            memcpy(output + (size_t)at.offset * item, (const uint8_t *)input->data + (size_t)from * item, item);
        }
        dtn_iterator_next(&at, dims, strides);
    }
}

int32_t dtn_op_max_pool2d(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    run(call);
    return DTN_OK;
}
