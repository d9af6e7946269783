#include <string.h>

#include "convolution_groups.h"
#include "dot_product_s8.h"
#include "window_runs.h"

/* ---- Convolutions that the inner loops do not support: every run is read in place ---- */

/* Adjacent channels: their rows of weights, and the start values of their sums. */
typedef struct {
    const int8_t *rows[DTN_CM_ROWS];
    uint32_t starts[DTN_CM_ROWS];
    size_t first;
    size_t count;
} channels_t;

/* The term of the input's offset in a kernel sum. The sum omits it, so that padding adds nothing. */
static uint32_t input_offset_term(const dtn_cm_group_t *group, const int8_t *weights)
{
    int32_t sum = 0;
    for (size_t k = 0; k < group->patch; k++) {
        sum += weights[k];
    }
    return (uint32_t)(sum * group->p->in_offset);
}

static channels_t channels_from(const dtn_cm_group_t *group, size_t first)
{
    size_t left = group->outputs - first;
    channels_t channels = {.first = first, .count = left < DTN_CM_ROWS ? left : DTN_CM_ROWS};
    dtn_cm_rows_of(group->weights, group->patch, first, group->outputs, channels.rows);
    for (size_t j = 0; j < channels.count; j++) {
        channels.starts[j] = group->bias == NULL ? 0U : (uint32_t)group->bias[first + j];
        if (group->p->has_kernel_sum == 1) {
            channels.starts[j] -= input_offset_term(group, channels.rows[j]);
        }
    }
    return channels;
}

static void one_pixel(const dtn_cm_group_t *group, const dtn_cm_place_t *place, const channels_t *channels)
{
    uint32_t sums[DTN_CM_ROWS];
    memcpy(sums, channels->starts, sizeof sums);
    for (int32_t ky = place->rows.first; ky < place->rows.end; ky++) {
        for (int32_t kx = place->columns.first; kx < place->columns.end; kx = dtn_cm_next_run(group, place, kx)) {
            dtn_cm_run_t run = dtn_cm_run(group, place, ky, kx);
            dtn_cm_add_dots(run.input, group->p->in_offset, channels->rows, run.at, run.count, sums);
        }
    }
    for (size_t j = 0; j < channels->count; j++) {
        size_t channel = channels->first + j;
        dtn_cm_factor_t factor = dtn_cm_factor(&group->scale, channel);
        place->output[channel] = dtn_cm_scaled(&group->scale, &factor, sums[j]);
    }
}

static void all_pixels(const dtn_cm_group_t *group, const channels_t *channels)
{
    const dtn_cm_windows_t *p = group->p;
    dtn_cm_place_t place = {.image = group->input, .output = group->output};
    for (int32_t b = 0; b < p->batches; b++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            place.rows = dtn_cm_window(oy, p->stride_h, p->pad_h, p->kernel_h, p->dilation_h, p->in_h);
            for (int32_t ox = 0; ox < p->out_w; ox++) {
                place.columns = dtn_cm_window(ox, p->stride_w, p->pad_w, p->kernel_w, p->dilation_w, p->in_w);
                one_pixel(group, &place, channels);
                place.output += p->out_c;
            }
        }
        place.image += (size_t)p->in_h * (size_t)p->in_w * (size_t)p->in_c;
    }
}

static void in_place(const dtn_cm_group_t *group)
{
    for (size_t first = 0; first < group->outputs; first += DTN_CM_ROWS) {
        channels_t channels = channels_from(group, first);
        all_pixels(group, &channels);
    }
}

static void run(const dtn_cm_convolution_t *layer, const dtn_tensor_t *scratch)
{
    const dtn_cm_windows_t *p = layer->p;
    for (size_t i = 0; i < (size_t)p->groups; i++) {
        dtn_cm_group_t group = dtn_cm_group_of(layer, i, (size_t)(p->out_c / p->groups));
        if (dtn_cm_is_point(p)) {
            dtn_cm_points(&group, dtn_cm_multiply);
        } else if (!dtn_cm_convolve(&group, scratch->data, scratch->bytes)) {
            in_place(&group);
        }
    }
}

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!dtn_cm_is_convolution(call, 1)) {
        return false;
    }
    const dtn_cm_windows_t *p = DTN_CM_PARAMS(call, dtn_cm_windows_t);
    return dtn_cm_has_rows(p) && dtn_cm_is_axis(p->in_w, p->out_w, p->kernel_w, p->stride_w, p->pad_w, p->dilation_w);
}

DTN_CM_CONVOLUTION(dtn_cm_quantized_conv2d, is_valid, run)
