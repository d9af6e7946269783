#include <string.h>

#include "pairs.h"
#include "product.h"
#include "windows.h"

/* One of the groups of channels: its outputs see its inputs only. */
typedef struct {
    const dtn_cm_convolution_t *layer;
    const int8_t *input;   /* of the first pixel */
    const int8_t *weights; /* a row of `patch` elements for each output channel */
    const int32_t *bias;   /* one per output channel, or NULL */
    int8_t *output;        /* of the first pixel */
    dtn_cm_scale_t scale;
    size_t outputs;
    size_t inputs;
    size_t patch; /* elements of a window */
    bool joined;  /* neighbours in a row of the kernel are neighbours in memory, too */
} group_t;

/* A window on the map, and the output pixel that is made of it. */
typedef struct {
    dtn_cm_window_t rows;
    dtn_cm_window_t columns;
    const int8_t *image;
    int8_t *output;
} place_t;

/* Elements that lie side by side both in the map and, from `at` on, in a row of weights. */
typedef struct {
    const int8_t *input;
    size_t at;
    size_t count;
} run_t;

static group_t group_of(const dtn_cm_convolution_t *layer, size_t index)
{
    const dtn_cm_windows_t *p = layer->p;
    group_t group = {.layer = layer, .joined = p->groups == 1 && p->dilation_w == 1};
    group.inputs = (size_t)(p->in_c / p->groups);
    group.outputs = (size_t)(p->out_c / p->groups);
    group.patch = (size_t)p->kernel_h * (size_t)p->kernel_w * group.inputs;
    size_t first = index * group.outputs;
    group.input = layer->input + index * group.inputs;
    group.weights = layer->weights + first * group.patch;
    group.bias = layer->bias == NULL ? NULL : layer->bias + first;
    group.output = layer->output + first;
    group.scale = layer->scale;
    group.scale.multipliers += first;
    group.scale.shifts += first;
    return group;
}

/* The run of a window from kernel position (ky, kx) on, kx inside. */
static run_t run_from(const group_t *group, const place_t *place, int32_t ky, int32_t kx)
{
    const dtn_cm_windows_t *p = group->layer->p;
    size_t y = (size_t)(place->rows.start + ky * p->dilation_h);
    size_t x = (size_t)(place->columns.start + kx * p->dilation_w);
    size_t width = group->joined ? (size_t)(place->columns.end - kx) : 1;
    return (run_t){place->image + (y * (size_t)p->in_w + x) * (size_t)p->in_c,
                   ((size_t)ky * (size_t)p->kernel_w + (size_t)kx) * group->inputs, width * group->inputs};
}

/* What the next run starts at, after one from kx on. */
static int32_t next_run(const group_t *group, const place_t *place, int32_t kx)
{
    return group->joined ? place->columns.end : kx + 1;
}

/* ---- With scratch memory: two windows are gathered there as pairs ---- */

/* Adds the elements of a window, times the factor, to the pairs. */
static void add_window(const group_t *group, const place_t *place, int32_t factor, int32_t *pairs)
{
    int32_t offset = group->layer->p->in_offset;
    for (int32_t ky = place->rows.first; ky < place->rows.end; ky++) {
        for (int32_t kx = place->columns.first; kx < place->columns.end; kx = next_run(group, place, kx)) {
            run_t run = run_from(group, place, ky, kx);
            for (size_t i = 0; i < run.count; i++) {
                pairs[run.at + i] += (run.input[i] + offset) * factor;
            }
        }
    }
}

static bool are_alike(dtn_cm_window_t x, dtn_cm_window_t y)
{
    return x.first == y.first && x.end == y.end;
}

/* The pairs of two windows. What is not on the map is 0, which adds nothing. */
static void gather(const group_t *group, const place_t *x, const place_t *y, int32_t *pairs)
{
    const dtn_cm_windows_t *p = group->layer->p;
    bool alike = are_alike(x->rows, y->rows) && are_alike(x->columns, y->columns);
    bool whole = x->rows.end - x->rows.first == p->kernel_h && x->columns.end - x->columns.first == p->kernel_w;
    if (!alike || !whole) {
        memset(pairs, 0, group->patch * sizeof *pairs);
    }
    if (!alike) {
        add_window(group, x, 1, pairs);
        add_window(group, y, 1 << DTN_CM_PAIR_BITS, pairs);
        return;
    }
    for (int32_t ky = x->rows.first; ky < x->rows.end; ky++) {
        for (int32_t kx = x->columns.first; kx < x->columns.end; kx = next_run(group, x, kx)) {
            run_t run = run_from(group, x, ky, kx);
            const int8_t *other = run_from(group, y, ky, kx).input;
            dtn_cm_make_pairs(run.input, other, p->in_offset, run.count, pairs + run.at);
        }
    }
}

/* All channels of two output pixels, which may be the same. */
static void two_pixels(const group_t *group, const place_t *x, const place_t *y, int32_t *pairs)
{
    dtn_cm_pair_job_t job = {
        .weights = group->weights,
        .bias = group->bias,
        .depth = group->patch,
        .channels = group->outputs,
        .scale = &group->scale,
        .x_output = x->output,
        .y_output = y->output,
    };
    gather(group, x, y, pairs);
    dtn_cm_multiply_pairs(&job, pairs);
}

/* ---- Without: every run is read where it is ---- */

static void one_pixel(const group_t *group, const place_t *place)
{
    for (size_t first = 0; first < group->outputs; first += DTN_CM_ROWS) {
        const int8_t *rows[DTN_CM_ROWS];
        uint32_t sums[DTN_CM_ROWS] = {0};
        dtn_cm_rows_of(group->weights, group->patch, first, group->outputs, rows);
        for (int32_t ky = place->rows.first; ky < place->rows.end; ky++) {
            for (int32_t kx = place->columns.first; kx < place->columns.end; kx = next_run(group, place, kx)) {
                run_t run = run_from(group, place, ky, kx);
                dtn_cm_add_dots(run.input, group->layer->p->in_offset, rows, run.at, run.count, sums);
            }
        }
        for (size_t j = 0; j < DTN_CM_ROWS && first + j < group->outputs; j++) {
            uint32_t sum = sums[j] + (group->bias == NULL ? 0U : (uint32_t)group->bias[first + j]);
            dtn_cm_factor_t factor = dtn_cm_factor(&group->scale, first + j);
            place->output[first + j] = dtn_cm_scaled(&group->scale, &factor, sum);
        }
    }
}

/* ---- All windows in turn; `pairs` has room for those of a window, or is NULL ---- */

static void all_pixels(const group_t *group, int32_t *pairs)
{
    const dtn_cm_windows_t *p = group->layer->p;
    place_t place = {.image = group->input, .output = group->output};
    place_t waiting;
    bool is_waiting = false;
    for (int32_t b = 0; b < p->batches; b++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            place.rows = dtn_cm_window(oy, p->stride_h, p->pad_h, p->kernel_h, p->dilation_h, p->in_h);
            for (int32_t ox = 0; ox < p->out_w; ox++) {
                place.columns = dtn_cm_window(ox, p->stride_w, p->pad_w, p->kernel_w, p->dilation_w, p->in_w);
                if (pairs == NULL) {
                    one_pixel(group, &place);
                } else if (is_waiting) {
                    two_pixels(group, &waiting, &place, pairs);
                    is_waiting = false;
                } else {
                    waiting = place;
                    is_waiting = true;
                }
                place.output += p->out_c;
            }
        }
        place.image += (size_t)p->in_h * (size_t)p->in_w * (size_t)p->in_c;
    }
    if (is_waiting) {
        two_pixels(group, &waiting, &waiting, pairs);
    }
}

/* ---- Kernels of one by one without padding: every row of the map times the weights ---- */

static void points(const group_t *group)
{
    const dtn_cm_windows_t *p = group->layer->p;
    bool joined = p->stride_h == 1 && p->stride_w == 1;
    size_t lines = (size_t)p->batches * (size_t)p->out_h;
    dtn_cm_product_t product = {
        .input = group->input,
        .weights = group->weights,
        .bias = group->bias,
        .output = group->output,
        .rows = joined ? lines * (size_t)p->out_w : (size_t)p->out_w,
        .depth = group->inputs,
        .channels = group->outputs,
        .input_pitch = (size_t)p->stride_w * (size_t)p->in_c,
        .output_pitch = (size_t)p->out_c,
        .input_offset = p->in_offset,
        .scale = group->scale,
    };
    size_t line_bytes = (size_t)p->in_w * (size_t)p->in_c;
    for (int32_t b = 0; b < (joined ? 1 : p->batches); b++) {
        product.input = group->input + (size_t)b * (size_t)p->in_h * line_bytes;
        for (int32_t oy = 0; oy < (joined ? 1 : p->out_h); oy++) {
            dtn_cm_multiply(&product);
            product.input += (size_t)p->stride_h * line_bytes;
            product.output += product.rows * product.output_pitch;
        }
    }
}

/* Room for the pairs of a window, or NULL: the scratch is of bytes, which ExecuTorch's runtime may start anywhere. */
static int32_t *room_in(const dtn_tensor_t *scratch, size_t patch)
{
    bool fits = scratch->bytes >= patch * sizeof(int32_t) && (uintptr_t)scratch->data % sizeof(int32_t) == 0;
    return fits ? (int32_t *)scratch->data : NULL;
}

static void run(const dtn_cm_convolution_t *layer, const dtn_tensor_t *scratch)
{
    const dtn_cm_windows_t *p = layer->p;
    bool is_point = p->kernel_h == 1 && p->kernel_w == 1 && p->pad_h == 0 && p->pad_w == 0;
    for (size_t i = 0; i < (size_t)p->groups; i++) {
        group_t group = group_of(layer, i);
        if (is_point) {
            points(&group);
        } else {
            all_pixels(&group, room_in(scratch, group.patch));
        }
    }
}

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!dtn_cm_is_convolution(call, 1)) {
        return false;
    }
    const dtn_cm_windows_t *p = DTN_CM_PARAMS(call, dtn_cm_windows_t);
    return dtn_cm_is_axis(p->in_h, p->out_h, p->kernel_h, p->stride_h, p->pad_h, p->dilation_h) &&
           dtn_cm_is_axis(p->in_w, p->out_w, p->kernel_w, p->stride_w, p->pad_w, p->dilation_w);
}

int32_t dtn_cm_quantized_conv2d(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    dtn_cm_convolution_t layer;
    if (!dtn_cm_convolution(call, &layer)) {
        return DTN_REASON_OPERATOR;
    }
    run(&layer, &call->values[call->input_count]);
    return DTN_OK;
}
