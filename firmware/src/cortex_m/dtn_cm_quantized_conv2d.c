#include <string.h>

#include "product.h"
#include "windows.h"

DTN_CM_DEFINE_DOT_2X2(dot_2x2, int16_t)

/* One of the groups of channels: its outputs see its inputs only. */
typedef struct {
    const dtn_cm_convolution_t *layer;
    const int8_t *input;   /* of the first pixel */
    const int8_t *weights; /* a row of `patch` elements for each output channel */
    size_t first;          /* output channel */
    size_t outputs;
    size_t inputs;
    size_t patch; /* elements of a window */
    bool joined;  /* neighbours in a row of the kernel are neighbours in memory, too */
} group_t;

/* A window on the map. */
typedef struct {
    dtn_cm_window_t rows;
    dtn_cm_window_t columns;
    const int8_t *image;
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
    group.first = index * group.outputs;
    group.input = layer->input + index * group.inputs;
    group.weights = layer->weights + group.first * group.patch;
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

/* ---- With scratch memory: windows are gathered two by two, as numbers of 16 bits ---- */

static void widen(const run_t *run, int32_t offset, int16_t *column)
{
    int16_t *to = column + run->at;
    for (size_t i = 0; i < run->count; i++) {
        to[i] = (int16_t)(run->input[i] + offset);
    }
}

/* The elements of a window; where it is not on the map, 0, which adds nothing. */
static void gather(const group_t *group, const place_t *place, int16_t *column)
{
    const dtn_cm_windows_t *p = group->layer->p;
    bool whole =
        place->rows.end - place->rows.first == p->kernel_h && place->columns.end - place->columns.first == p->kernel_w;
    if (!whole) {
        memset(column, 0, group->patch * sizeof *column);
    }
    for (int32_t ky = place->rows.first; ky < place->rows.end; ky++) {
        for (int32_t kx = place->columns.first; kx < place->columns.end; kx = next_run(group, place, kx)) {
            run_t run = run_from(group, place, ky, kx);
            widen(&run, p->in_offset, column);
        }
    }
}

/* Two output pixels, which may be the same. */
static void two_pixels(const group_t *group, const int16_t *x, const int16_t *y, int8_t *out_x, int8_t *out_y)
{
    const dtn_cm_convolution_t *layer = group->layer;
    size_t end = group->first + group->outputs;
    const int8_t *weights = group->weights;
    for (size_t channel = group->first; channel < end; channel += 2) {
        /* An odd one at the end goes with itself. */
        size_t other = channel + 1 < end ? channel + 1 : channel;
        const int8_t *other_weights = other == channel ? weights : weights + group->patch;
        dtn_cm_dots_2x2_t sums = dot_2x2(x, y, weights, other_weights, group->patch);
        dtn_cm_factor_t factor = dtn_cm_factor(&layer->scale, channel);
        uint32_t bias = dtn_cm_bias(layer, channel);
        out_x[channel] = dtn_cm_scaled(&layer->scale, factor, bias + (uint32_t)sums.xw);
        out_y[channel] = dtn_cm_scaled(&layer->scale, factor, bias + (uint32_t)sums.yw);
        factor = dtn_cm_factor(&layer->scale, other);
        bias = dtn_cm_bias(layer, other);
        out_x[other] = dtn_cm_scaled(&layer->scale, factor, bias + (uint32_t)sums.xv);
        out_y[other] = dtn_cm_scaled(&layer->scale, factor, bias + (uint32_t)sums.yv);
        weights += 2 * group->patch;
    }
}

/* ---- Without: every run is read where it is ---- */

static void one_pixel(const group_t *group, const place_t *place, int8_t *out)
{
    const dtn_cm_convolution_t *layer = group->layer;
    for (size_t first = 0; first < group->outputs; first += DTN_CM_ROWS) {
        const int8_t *rows[DTN_CM_ROWS];
        uint32_t sums[DTN_CM_ROWS] = {0};
        dtn_cm_rows_of(group->weights, group->patch, first, group->outputs, rows);
        for (int32_t ky = place->rows.first; ky < place->rows.end; ky++) {
            for (int32_t kx = place->columns.first; kx < place->columns.end; kx = next_run(group, place, kx)) {
                run_t run = run_from(group, place, ky, kx);
                dtn_cm_dots_t dots = dtn_cm_dot(run.input, layer->p->in_offset, rows, run.at, run.count);
                dtn_cm_add_dots(&dots, sums);
            }
        }
        for (size_t j = 0; j < DTN_CM_ROWS && first + j < group->outputs; j++) {
            size_t channel = group->first + first + j;
            uint32_t sum = sums[j] + dtn_cm_bias(layer, channel);
            out[channel] = dtn_cm_scaled(&layer->scale, dtn_cm_factor(&layer->scale, channel), sum);
        }
    }
}

/* ---- All windows in turn; `columns` holds two gathered windows, or is NULL ---- */

static void all_pixels(const group_t *group, int16_t *columns)
{
    const dtn_cm_windows_t *p = group->layer->p;
    size_t out_c = (size_t)p->out_c;
    int8_t *out = group->layer->output;
    place_t place = {.image = group->input};
    bool waiting = false;
    for (int32_t b = 0; b < p->batches; b++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            place.rows = dtn_cm_window(oy, p->stride_h, p->pad_h, p->kernel_h, p->dilation_h, p->in_h);
            for (int32_t ox = 0; ox < p->out_w; ox++, out += out_c) {
                place.columns = dtn_cm_window(ox, p->stride_w, p->pad_w, p->kernel_w, p->dilation_w, p->in_w);
                if (columns == NULL) {
                    one_pixel(group, &place, out);
                    continue;
                }
                gather(group, &place, waiting ? columns + group->patch : columns);
                if (waiting) {
                    two_pixels(group, columns, columns + group->patch, out - out_c, out);
                }
                waiting = !waiting;
            }
        }
        place.image += (size_t)p->in_h * (size_t)p->in_w * (size_t)p->in_c;
    }
    if (waiting) {
        two_pixels(group, columns, columns, out - out_c, out - out_c);
    }
}

/* ---- Kernels of one by one without padding: every row of the map times the weights ---- */

static void points(const group_t *group)
{
    const dtn_cm_convolution_t *layer = group->layer;
    const dtn_cm_windows_t *p = layer->p;
    bool joined = p->stride_h == 1 && p->stride_w == 1;
    size_t lines = (size_t)p->batches * (size_t)p->out_h;
    dtn_cm_product_t product = {
        .input = group->input,
        .weights = group->weights,
        .bias = layer->bias == NULL ? NULL : layer->bias + group->first,
        .output = layer->output + group->first,
        .rows = joined ? lines * (size_t)p->out_w : (size_t)p->out_w,
        .depth = group->inputs,
        .channels = group->outputs,
        .input_pitch = (size_t)p->stride_w * (size_t)p->in_c,
        .output_pitch = (size_t)p->out_c,
        .input_offset = p->in_offset,
        .scale = layer->scale,
    };
    product.scale.multipliers += group->first;
    product.scale.shifts += group->first;
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

static void run(const dtn_cm_convolution_t *layer, const dtn_tensor_t *scratch)
{
    const dtn_cm_windows_t *p = layer->p;
    bool is_point = p->kernel_h == 1 && p->kernel_w == 1 && p->pad_h == 0 && p->pad_w == 0;
    for (size_t i = 0; i < (size_t)p->groups; i++) {
        group_t group = group_of(layer, i);
        if (is_point) {
            points(&group);
        } else {
            bool fits = scratch->bytes >= 2 * group.patch * sizeof(int16_t);
            all_pixels(&group, fits ? (int16_t *)scratch->data : NULL);
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
