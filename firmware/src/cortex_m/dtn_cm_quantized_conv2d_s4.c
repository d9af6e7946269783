#include "convolution_groups.h"
#include "packed_weights.h"
#include "window_runs.h"

enum { WEIGHTS = 1 };

/* ---- Convolutions that the inner loops do not support: every run is read in place ---- */

/* Adds the products of a run, each input with an offset, with both rows of a packed one. */
static void add_run(const int8_t *x, int32_t offset, const int8_t *packed, size_t count, uint32_t sums[DTN_CM_PACKED])
{
    int32_t a = 0;
    int32_t b = 0;
    for (size_t k = 0; k < count; k++) {
        int32_t input = x[k] + offset;
        a += input * dtn_cm_first_weight(packed[k]);
        b += input * dtn_cm_second_weight(packed[k]);
    }
    sums[0] += (uint32_t)a;
    sums[1] += (uint32_t)b;
}

/* Two channels of a pixel, or the last one. `starts` are those of sums that omit positions in the padding. */
static void one_pixel(const dtn_cm_group_t *group, const dtn_cm_place_t *place, size_t channel, const int8_t *packed,
                      const uint32_t starts[DTN_CM_PACKED])
{
    uint32_t sums[DTN_CM_PACKED] = {starts[0], starts[1]};
    for (int32_t ky = place->rows.first; ky < place->rows.end; ky++) {
        for (int32_t kx = place->columns.first; kx < place->columns.end; kx = dtn_cm_next_run(group, place, kx)) {
            dtn_cm_run_t run = dtn_cm_run(group, place, ky, kx);
            add_run(run.input, group->p->in_offset, packed + run.at, run.count, sums);
        }
    }
    for (size_t j = 0; j < DTN_CM_PACKED && channel + j < group->outputs; j++) {
        dtn_cm_factor_t factor = dtn_cm_factor(&group->scale, channel + j);
        place->output[channel + j] = dtn_cm_scaled(&group->scale, &factor, sums[j]);
    }
}

/* The terms of the input's offset in two kernel sums. The sums omit them, so that padding adds nothing. */
static void input_offset_terms(const dtn_cm_group_t *group, const int8_t *packed, uint32_t terms[DTN_CM_PACKED])
{
    int32_t first = 0;
    int32_t second = 0;
    for (size_t k = 0; k < group->patch; k++) {
        first += dtn_cm_first_weight(packed[k]);
        second += dtn_cm_second_weight(packed[k]);
    }
    terms[0] = (uint32_t)(first * group->p->in_offset);
    terms[1] = (uint32_t)(second * group->p->in_offset);
}

/* Two channels of all pixels, or the last one. */
static void all_pixels(const dtn_cm_group_t *group, size_t channel)
{
    const dtn_cm_windows_t *p = group->p;
    const int8_t *packed = group->weights + channel / DTN_CM_PACKED * group->patch;
    uint32_t starts[DTN_CM_PACKED];
    input_offset_terms(group, packed, starts);
    for (size_t j = 0; j < DTN_CM_PACKED && channel + j < group->outputs; j++) {
        starts[j] = (uint32_t)group->bias[channel + j] - starts[j];
    }
    dtn_cm_place_t place = {.image = group->input, .output = group->output};
    for (int32_t b = 0; b < p->batches; b++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            place.rows = dtn_cm_window(oy, p->stride_h, p->pad_h, p->kernel_h, p->dilation_h, p->in_h);
            for (int32_t ox = 0; ox < p->out_w; ox++) {
                place.columns = dtn_cm_window(ox, p->stride_w, p->pad_w, p->kernel_w, p->dilation_w, p->in_w);
                one_pixel(group, &place, channel, packed, starts);
                place.output += p->out_c;
            }
        }
        place.image += (size_t)p->in_h * (size_t)p->in_w * (size_t)p->in_c;
    }
}

static void run(const dtn_cm_convolution_t *layer, const dtn_tensor_t *scratch)
{
    const dtn_cm_windows_t *p = layer->p;
    const size_t rows = dtn_cm_packed_rows((size_t)(p->out_c / p->groups));
    for (size_t i = 0; i < (size_t)p->groups; i++) {
        dtn_cm_group_t group = dtn_cm_group_of(layer, i, rows);
        if (dtn_cm_is_point(p)) {
            dtn_cm_points(&group, dtn_cm_multiply_s4);
        } else if (!dtn_cm_convolve_s4(&group, scratch->data, scratch->bytes)) {
            for (size_t channel = 0; channel < group.outputs; channel += DTN_CM_PACKED) {
                all_pixels(&group, channel);
            }
        }
    }
}

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!dtn_cm_are_windows(call, 1)) {
        return false;
    }
    const dtn_cm_windows_t *p = DTN_CM_PARAMS(call, dtn_cm_windows_t);
    const dtn_tensor_t *weights = &call->values[WEIGHTS];
    const int32_t rows = (int32_t)dtn_cm_packed_rows((size_t)(p->out_c / p->groups));
    return p->has_kernel_sum == 1 && weights->type == DTN_TYPE_S8 &&
           dtn_cm_has_size(weights, DTN_CM_LIST(p->groups, rows, p->kernel_h, p->kernel_w, p->in_c / p->groups)) &&
           dtn_cm_has_rows(p) && dtn_cm_is_axis(p->in_w, p->out_w, p->kernel_w, p->stride_w, p->pad_w, p->dilation_w);
}

DTN_CM_CONVOLUTION(dtn_cm_quantized_conv2d_s4, is_valid, run)
