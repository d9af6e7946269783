#include "convolution_groups.h"
#include "interleaved_weights.h"
#include "window_runs.h"

enum { WEIGHTS = 1 };

/* ---- Convolutions that the inner loops do not support: every run is read in place ---- */

/* Elements of a row of the kernel. */
static size_t row_of(const dtn_cm_group_t *group)
{
    return (size_t)group->p->kernel_w * group->inputs;
}

/* A channel's weight of element k of a row of the kernel. */
static int32_t weight_at(const dtn_cm_group_t *group, size_t channel, size_t ky, size_t k)
{
    const size_t row = row_of(group);
    const size_t rows = channel / 2 * (size_t)group->p->kernel_h + ky;
    const size_t at = rows * 4 * dtn_cm_interleaved_words(row);
    return group->has_s16_weights
               ? dtn_cm_interleaved_weight_s16((const int16_t *)(const void *)group->weights + at, row, channel % 2, k)
               : dtn_cm_interleaved_weight(group->weights + at, row, channel % 2, k);
}

/* The sum of the products of a channel's weights with the inputs and their offset; positions in the padding add 0. */
static uint32_t sum_of(const dtn_cm_group_t *group, const dtn_cm_place_t *place, size_t channel)
{
    const size_t row = row_of(group);
    uint32_t sum = 0;
    for (int32_t ky = place->rows.first; ky < place->rows.end; ky++) {
        for (int32_t kx = place->columns.first; kx < place->columns.end; kx = dtn_cm_next_run(group, place, kx)) {
            const dtn_cm_run_t run = dtn_cm_run(group, place, ky, kx);
            for (size_t i = 0; i < run.count; i++) {
                const int32_t weight = weight_at(group, channel, (size_t)ky, run.at % row + i);
                sum += (uint32_t)((run.input[i] + group->p->in_offset) * weight);
            }
        }
    }
    return sum;
}

/* The start of a channel's sums: its kernel sum without the term of the inputs' offset. */
static uint32_t start_of(const dtn_cm_group_t *group, size_t channel)
{
    const size_t row = row_of(group);
    uint32_t sum = 0;
    for (size_t k = 0; k < group->patch; k++) {
        sum += (uint32_t)weight_at(group, channel, k / row, k % row);
    }
    return (uint32_t)group->bias[channel] - sum * (uint32_t)group->p->in_offset;
}

/* A channel of all pixels. */
static void all_pixels(const dtn_cm_group_t *group, size_t channel)
{
    const dtn_cm_windows_t *p = group->p;
    const dtn_cm_factor_t factor = dtn_cm_factor(&group->scale, channel);
    const uint32_t start = start_of(group, channel);
    dtn_cm_place_t place = {.image = group->input, .output = group->output + channel};
    for (int32_t b = 0; b < p->batches; b++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            place.rows = dtn_cm_window(oy, p->stride_h, p->pad_h, p->kernel_h, p->dilation_h, p->in_h);
            for (int32_t ox = 0; ox < p->out_w; ox++) {
                place.columns = dtn_cm_window(ox, p->stride_w, p->pad_w, p->kernel_w, p->dilation_w, p->in_w);
                *place.output = dtn_cm_scaled(&group->scale, &factor, start + sum_of(group, &place, channel));
                place.output += p->out_c;
            }
        }
        place.image += (size_t)p->in_h * (size_t)p->in_w * (size_t)p->in_c;
    }
}

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!dtn_cm_are_windows(call, 1)) {
        return false;
    }
    const dtn_cm_windows_t *p = DTN_CM_PARAMS(call, dtn_cm_windows_t);
    const dtn_tensor_t *weights = &call->values[WEIGHTS];
    const int32_t words = (int32_t)dtn_cm_interleaved_words((size_t)p->kernel_w * (size_t)p->in_c);
    const bool is_s16 = weights->type == DTN_TYPE_S16;
    return p->has_kernel_sum == 1 && p->groups == 1 && p->out_c % 2 == 0 && (is_s16 || weights->type == DTN_TYPE_S8) &&
           dtn_cm_has_size(weights, DTN_CM_LIST(p->out_c, p->kernel_h, words, is_s16 ? 4 : 2)) && dtn_cm_has_rows(p) &&
           dtn_cm_is_axis(p->in_w, p->out_w, p->kernel_w, p->stride_w, p->pad_w, p->dilation_w);
}

/* A map that is one pixel wide stays a column: its weights are ordered by the rows of the kernel. */
int32_t dtn_cm_interleaved_conv2d(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    dtn_cm_convolution_t layer;
    if (!dtn_cm_convolution(call, &layer)) {
        return DTN_REASON_OPERATOR;
    }
    dtn_cm_group_t group = dtn_cm_group_of(&layer, 0, 0);
    group.has_s16_weights = call->values[WEIGHTS].type == DTN_TYPE_S16;
    if (group.has_s16_weights && (uintptr_t)group.weights % sizeof(uint32_t) != 0) {
        return DTN_REASON_OPERATOR;
    }
    if (!dtn_cm_convolve_interleaved(&group)) {
        for (size_t channel = 0; channel < group.outputs; channel++) {
            all_pixels(&group, channel);
        }
    }
    return DTN_OK;
}
