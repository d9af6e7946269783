#include <string.h>

#include "inner_loops_s16.h"

/* Elements of the windows that are copied to the stack before they are multiplied. */
enum { COPIED = 512 };

enum { MOST_SHIFT = 40, MULTIPLIER_BITS = 22 };

enum { INPUT, WEIGHTS, MULTIPLIERS, SHIFTS, BIAS, OUTPUT };

typedef dtn_cm_convolution_s16_params_t params_t;

/* A call with its values, and the inputs of one group of output channels. */
typedef struct {
    const params_t *p;
    const int16_t *input;
    const int8_t *weights;
    int16_t *output;
    dtn_cm_scale_s16_t scale;
    size_t inputs;  /* channels of a group */
    size_t outputs; /* the same */
    size_t patch;   /* elements of a window */
    bool joined;    /* neighbours in a row of the kernel are neighbours in memory, too */
} layer_t;

/* A window on the map, of one image. */
typedef struct {
    dtn_cm_window_t rows;
    dtn_cm_window_t columns;
    const int16_t *image; /* from the first channel of the group on */
    int16_t *output;      /* the pixel's first channel */
    size_t group;
} place_t;

/* Elements that lie side by side in the map and in a row of weights. */
typedef struct {
    const int16_t *input;
    size_t at;
    size_t count;
} run_t;

static run_t run_from(const layer_t *layer, const place_t *place, int32_t ky, int32_t kx)
{
    const params_t *p = layer->p;
    size_t y = (size_t)(place->rows.start + ky * p->dilation_h);
    size_t x = (size_t)(place->columns.start + kx * p->dilation_w);
    size_t width = layer->joined ? (size_t)(place->columns.end - kx) : 1;
    return (run_t){place->image + (y * (size_t)p->in_w + x) * (size_t)p->in_c,
                   ((size_t)ky * (size_t)p->kernel_w + (size_t)kx) * layer->inputs, width * layer->inputs};
}

static int32_t next_run(const layer_t *layer, const place_t *place, int32_t kx)
{
    return layer->joined ? place->columns.end : kx + 1;
}

/* The whole window, with zeros in the padding. */
static void copy_window(const layer_t *layer, const place_t *place, int16_t *window)
{
    const params_t *p = layer->p;
    const dtn_cm_window_t rows = place->rows;
    const dtn_cm_window_t columns = place->columns;
    const int32_t width = columns.end - columns.first;
    const size_t inputs = layer->inputs;
    if (rows.end - rows.first != p->kernel_h || width != p->kernel_w) {
        memset(window, 0, layer->patch * sizeof *window);
        if (rows.end == 0 || width == 0) {
            return;
        }
    }
    const size_t column = (size_t)(p->dilation_w * p->in_c);
    const size_t row = (size_t)(p->dilation_h * p->in_w) * (size_t)p->in_c;
    const size_t line = (size_t)p->kernel_w * inputs;
    const run_t first = run_from(layer, place, rows.first, columns.first);
    const int16_t *from = first.input;
    int16_t *to = window + first.at;
    if (layer->joined) {
        dtn_cm_copy_runs_s16(from, row, to, line, first.count, (size_t)(rows.end - rows.first));
        return;
    }
    for (int32_t left = rows.end - rows.first; left > 0; left--) {
        dtn_cm_copy_runs_s16(from, column, to, inputs, inputs, (size_t)width);
        from += row;
        to += line;
    }
}

/* Adds the products of a window, which is not copied, with four rows of weights. */
static void add_runs(const layer_t *layer, const place_t *place, const int8_t *const rows[DTN_CM_ROWS],
                     int64_t sums[DTN_CM_ROWS])
{
    for (int32_t ky = place->rows.first; ky < place->rows.end; ky++) {
        for (int32_t kx = place->columns.first; kx < place->columns.end; kx = next_run(layer, place, kx)) {
            run_t run = run_from(layer, place, ky, kx);
            const int8_t *parts[DTN_CM_ROWS] = {rows[0] + run.at, rows[1] + run.at, rows[2] + run.at, rows[3] + run.at};
            dtn_cm_add_dots_s16(run.input, parts, run.count, sums);
        }
    }
}

/* All output channels of a group for one window that is not copied. */
static void one_pixel(const layer_t *layer, const place_t *place)
{
    size_t channel = place->group * layer->outputs;
    const int8_t *weights = layer->weights + channel * layer->patch;
    for (size_t first = 0; first < layer->outputs; first += DTN_CM_ROWS) {
        const int8_t *rows[DTN_CM_ROWS];
        int64_t sums[DTN_CM_ROWS] = {0};
        dtn_cm_rows_of(weights, layer->patch, first, layer->outputs, rows);
        add_runs(layer, place, rows, sums);
        for (size_t j = 0; j < DTN_CM_ROWS && first + j < layer->outputs; j++) {
            size_t at = channel + first + j;
            place->output[at] = dtn_cm_scaled_s16(&layer->scale, at, sums[j]);
        }
    }
}

/* The same for a group with one input channel, of depthwise layers with several outputs for each or large windows. */
static void one_channel(const layer_t *layer, const place_t *place)
{
    const params_t *p = layer->p;
    size_t step = (size_t)(p->dilation_w * p->in_c);
    size_t channel = place->group * layer->outputs;
    for (size_t end = channel + layer->outputs; channel < end; channel++) {
        const int8_t *weights = layer->weights + channel * layer->patch;
        int64_t sum = 0;
        for (int32_t ky = place->rows.first; ky < place->rows.end; ky++) {
            run_t run = run_from(layer, place, ky, place->columns.first);
            for (size_t k = 0; k < (size_t)(place->columns.end - place->columns.first); k++) {
                sum += run.input[k * step] * weights[run.at + k];
            }
        }
        place->output[channel] = dtn_cm_scaled_s16(&layer->scale, channel, sum);
    }
}

/* The product of a group's weights with rows of inputs. */
static dtn_cm_product_s16_t product_of(const layer_t *layer, const place_t *place)
{
    size_t channel = place->group * layer->outputs;
    dtn_cm_product_s16_t product = {
        .weights = layer->weights + channel * layer->patch,
        .output = place->output + channel,
        .depth = layer->patch,
        .channels = layer->outputs,
        .input_pitch = layer->patch,
        .output_pitch = (size_t)layer->p->out_c,
        .scale = layer->scale,
    };
    product.scale.multipliers += channel;
    product.scale.shifts += channel;
    product.scale.bias += channel;
    return product;
}

/* True for kernels of one by one, all of whose positions are on the map. */
static bool is_point(const params_t *p)
{
    return p->kernel_h == 1 && p->kernel_w == 1 && p->pad_h == 0 && p->pad_w == 0 &&
           (p->out_h - 1) * p->stride_h < p->in_h && (p->out_w - 1) * p->stride_w < p->in_w;
}

/* True if these lie side by side, those of all images. */
static bool is_one_run(const params_t *p)
{
    return p->stride_h == 1 && p->stride_w == 1 && p->out_h == p->in_h && p->out_w == p->in_w;
}

/* A group of a layer with such a kernel: pixels of so many images are rows of inputs. */
static void run_points(const layer_t *layer, const place_t *place, size_t images)
{
    const params_t *p = layer->p;
    const bool is_joined = is_one_run(p);
    dtn_cm_product_s16_t product = product_of(layer, place);
    product.input = place->image;
    product.rows = is_joined ? images * (size_t)p->out_h * (size_t)p->out_w : (size_t)p->out_w;
    product.input_pitch = (size_t)p->stride_w * (size_t)p->in_c;
    for (int32_t oy = 0; oy < (is_joined ? 1 : p->out_h); oy++) {
        dtn_cm_multiply_s16(&product);
        product.input += (size_t)p->stride_h * (size_t)p->in_w * (size_t)p->in_c;
        product.output += product.rows * product.output_pitch;
    }
}

/* A group of any layer: copies of windows are rows of inputs. Windows that are too large are not copied. */
static void run_windows(const layer_t *layer, place_t *place)
{
    const params_t *p = layer->p;
    const bool is_channel = layer->inputs == 1 && p->groups > 1;
    const size_t most = is_channel ? 0 : COPIED / layer->patch;
    int16_t copied[COPIED];
    dtn_cm_product_s16_t product = product_of(layer, place);
    product.input = copied;
    for (int32_t oy = 0; oy < p->out_h; oy++) {
        place->rows = dtn_cm_window(oy, p->stride_h, p->pad_h, p->kernel_h, p->dilation_h, p->in_h);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            place->columns = dtn_cm_window(ox, p->stride_w, p->pad_w, p->kernel_w, p->dilation_w, p->in_w);
            if (most != 0) {
                copy_window(layer, place, copied + product.rows * layer->patch);
                product.rows++;
            } else if (is_channel) {
                one_channel(layer, place);
            } else {
                one_pixel(layer, place);
            }
            if (product.rows == most && most != 0) {
                dtn_cm_multiply_s16(&product);
                product.output += product.rows * product.output_pitch;
                product.rows = 0;
            }
            place->output += p->out_c;
        }
    }
    if (product.rows != 0) {
        dtn_cm_multiply_s16(&product);
    }
}

/* True for layers with an output channel for each input channel. */
static bool is_depthwise(const layer_t *layer)
{
    return layer->p->groups > 1 && layer->inputs == 1 && layer->outputs == 1 && layer->patch <= DTN_CM_S16_TAPS;
}

/* The number of images in one run: all of them where `is_one_run` holds, else one. */
static void run_images(const layer_t *layer, const int16_t *image, int16_t *output, size_t images)
{
    const params_t *p = layer->p;
    const dtn_cm_image_s16_t own = {p, image, layer->weights, output, layer->scale};
    if (is_depthwise(layer)) {
        dtn_cm_depthwise_s16(&own);
        return;
    }
    if (layer->joined && !is_point(p) && dtn_cm_convolve_s16(&own)) {
        return;
    }
    for (size_t group = 0; group < (size_t)p->groups; group++) {
        place_t place = {.image = image + group * layer->inputs, .output = output, .group = group};
        if (is_point(p)) {
            run_points(layer, &place, images);
        } else {
            run_windows(layer, &place);
        }
    }
}

static bool are_numbers(const params_t *p)
{
    const int32_t lengths[] = {p->batches,  p->in_h,       p->in_w,       p->in_c,     p->out_h,
                               p->out_w,    p->out_c,      p->kernel_h,   p->kernel_w, p->stride_h,
                               p->stride_w, p->dilation_h, p->dilation_w, p->groups};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        if (lengths[i] < 1 || lengths[i] > DTN_CM_MAX_DIMENSION) {
            return false;
        }
    }
    return p->pad_h >= 0 && p->pad_h <= DTN_CM_MAX_DIMENSION && p->pad_w >= 0 && p->pad_w <= DTN_CM_MAX_DIMENSION &&
           dtn_cm_is_s16_range(p->act_min, p->act_max) && p->in_c % p->groups == 0 && p->out_c % p->groups == 0 &&
           (int64_t)p->kernel_h * p->kernel_w <= DTN_CM_MAX_S16_PRODUCTS / (p->in_c / p->groups);
}

static bool is_valid(const dtn_operator_call_t *call)
{
    const dtn_tensor_t *values = call->values;
    if (!DTN_CM_IS_CALL(call, 5, 1, params_t)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    return values[INPUT].type == DTN_TYPE_S16 && values[WEIGHTS].type == DTN_TYPE_S8 &&
           dtn_cm_are(&values[MULTIPLIERS], 3, DTN_TYPE_S32) && values[OUTPUT].type == DTN_TYPE_S16 && are_numbers(p) &&
           dtn_cm_is_axis(p->in_h, p->out_h, p->kernel_h, p->stride_h, p->pad_h, p->dilation_h) &&
           dtn_cm_is_axis(p->in_w, p->out_w, p->kernel_w, p->stride_w, p->pad_w, p->dilation_w) &&
           dtn_cm_has_size(&values[INPUT], DTN_CM_LIST(2, p->batches, p->in_h, p->in_w, p->in_c)) &&
           dtn_cm_has_size(&values[WEIGHTS], DTN_CM_LIST(p->out_c, p->kernel_h, p->kernel_w, p->in_c / p->groups)) &&
           dtn_cm_has_size(&values[MULTIPLIERS], DTN_CM_LIST(4, p->out_c)) &&
           dtn_cm_has_size(&values[SHIFTS], DTN_CM_LIST(4, p->out_c)) &&
           dtn_cm_has_size(&values[BIAS], DTN_CM_LIST(4, p->out_c)) &&
           dtn_cm_has_size(&values[OUTPUT], DTN_CM_LIST(2, p->batches, p->out_h, p->out_w, p->out_c));
}

/* Those of channels are constants, which no check has read. */
static bool are_factors(dtn_cm_scale_s16_t *scale, int32_t channels)
{
    scale->least_shift = MOST_SHIFT;
    for (int32_t i = 0; i < channels; i++) {
        int32_t shift = scale->shifts[i];
        if (scale->multipliers[i] < 0 || scale->multipliers[i] >> MULTIPLIER_BITS != 0 ||
            shift < DTN_CM_S16_BIAS_BITS || shift > MOST_SHIFT) {
            return false;
        }
        scale->least_shift = shift < scale->least_shift ? shift : scale->least_shift;
    }
    return true;
}

int32_t dtn_cm_convolution_s16(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *values = call->values;
    layer_t layer = {
        .p = p,
        .input = (const int16_t *)values[INPUT].data,
        .weights = (const int8_t *)values[WEIGHTS].data,
        .output = (int16_t *)values[OUTPUT].data,
        .scale = {.multipliers = (const int32_t *)values[MULTIPLIERS].data,
                  .shifts = (const int32_t *)values[SHIFTS].data,
                  .bias = (const int32_t *)values[BIAS].data,
                  .lo = p->act_min,
                  .hi = p->act_max},
        .inputs = (size_t)(p->in_c / p->groups),
        .outputs = (size_t)(p->out_c / p->groups),
        .joined = p->groups == 1 && p->dilation_w == 1,
    };
    layer.patch = (size_t)p->kernel_h * (size_t)p->kernel_w * layer.inputs;
    if (!are_factors(&layer.scale, p->out_c)) {
        return DTN_REASON_OPERATOR;
    }
    const size_t batches = (size_t)p->batches;
    const size_t images = !is_depthwise(&layer) && is_point(p) && is_one_run(p) ? batches : 1;
    const size_t in_size = (size_t)p->in_h * (size_t)p->in_w * (size_t)p->in_c;
    const size_t out_size = (size_t)p->out_h * (size_t)p->out_w * (size_t)p->out_c;
    for (size_t b = 0; b < batches; b += images) {
        run_images(&layer, layer.input + b * in_size, layer.output + b * out_size, images);
    }
    return DTN_OK;
}
