#include <string.h>

#include "int16.h"
#include "windows.h"

/* Most elements of a window that is copied to the stack. */
enum { COPIED = 512 };

/* Channels of a depthwise layer whose sums are on the stack, and most elements of a window whose sums fit 32 bits. */
enum { CHANNELS = 32, TAPS = 256 };

/* A bias is in steps of the output with so many fractional bits. */
enum { BIAS_BITS = 10, MOST_SHIFT = 40, MULTIPLIER_BITS = 22 };

enum { INPUT, WEIGHTS, MULTIPLIERS, SHIFTS, BIAS, OUTPUT };

typedef dtn_cm_convolution_s16_params_t params_t;

/* A call with its values, and what is seen by one group of output channels. */
typedef struct {
    const params_t *p;
    const int16_t *input;
    const int8_t *weights;
    const int32_t *multipliers;
    const int32_t *shifts;
    const int32_t *bias;
    int16_t *output;
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

static int16_t scaled(const layer_t *layer, size_t channel, int64_t sum)
{
    int32_t shift = layer->shifts[channel];
    int64_t bias = (int64_t)layer->bias[channel] * (INT32_C(1) << (shift - BIAS_BITS));
    return dtn_cm_shift_to_s16(sum * layer->multipliers[channel] + bias, shift, layer->p->act_min, layer->p->act_max);
}

/* The whole window, with zeros in the padding. */
static void copy_window(const layer_t *layer, const place_t *place, int16_t *window)
{
    memset(window, 0, layer->patch * sizeof *window);
    for (int32_t ky = place->rows.first; ky < place->rows.end; ky++) {
        for (int32_t kx = place->columns.first; kx < place->columns.end; kx = next_run(layer, place, kx)) {
            run_t run = run_from(layer, place, ky, kx);
            memcpy(window + run.at, run.input, run.count * sizeof *window);
        }
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

/* All output channels of a group for one window. */
static void one_pixel(const layer_t *layer, const place_t *place)
{
    const params_t *p = layer->p;
    int16_t copied[COPIED];
    const int16_t *window = NULL;
    if (p->kernel_h == 1 && p->kernel_w == 1 && place->rows.end != 0 && place->columns.end != 0) {
        window = run_from(layer, place, 0, 0).input;
    } else if (layer->patch <= COPIED) {
        copy_window(layer, place, copied);
        window = copied;
    }
    size_t channel = place->group * layer->outputs;
    const int8_t *weights = layer->weights + channel * layer->patch;
    for (size_t first = 0; first < layer->outputs; first += DTN_CM_ROWS) {
        const int8_t *rows[DTN_CM_ROWS];
        int64_t sums[DTN_CM_ROWS] = {0};
        dtn_cm_rows_of(weights, layer->patch, first, layer->outputs, rows);
        if (window != NULL) {
            dtn_cm_add_dots_s16(window, rows, layer->patch, sums);
        } else {
            add_runs(layer, place, rows, sums);
        }
        for (size_t j = 0; j < DTN_CM_ROWS && first + j < layer->outputs; j++) {
            place->output[channel + first + j] = scaled(layer, channel + first + j, sums[j]);
        }
    }
}

/* All channels of a pixel of a depthwise convolution. */
static void each_channel(const layer_t *layer, const place_t *place)
{
    size_t channels = (size_t)layer->p->out_c;
    for (size_t first = 0; first < channels; first += CHANNELS) {
        size_t count = channels - first < CHANNELS ? channels - first : CHANNELS;
        const int8_t *weights = layer->weights + first * layer->patch;
        int32_t sums[CHANNELS] = {0};
        for (int32_t ky = place->rows.first; ky < place->rows.end; ky++) {
            for (int32_t kx = place->columns.first; kx < place->columns.end; kx++) {
                run_t run = run_from(layer, place, ky, kx);
                dtn_cm_add_tap_s16(run.input + first, weights + run.at, layer->patch, count, sums);
            }
        }
        for (size_t i = 0; i < count; i++) {
            place->output[first + i] = scaled(layer, first + i, sums[i]);
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
        place->output[channel] = scaled(layer, channel, sum);
    }
}

static void each_group(const layer_t *layer, const int16_t *image, place_t *place)
{
    for (place->group = 0; place->group < (size_t)layer->p->groups; place->group++) {
        place->image = image + place->group * layer->inputs;
        if (layer->inputs == 1 && layer->p->groups > 1) {
            one_channel(layer, place);
        } else {
            one_pixel(layer, place);
        }
    }
}

static void run_image(const layer_t *layer, const int16_t *image, int16_t *output)
{
    const params_t *p = layer->p;
    bool is_apart = layer->inputs == 1 && layer->outputs == 1 && layer->patch <= TAPS;
    place_t place = {.image = image, .output = output};
    for (int32_t oy = 0; oy < p->out_h; oy++) {
        place.rows = dtn_cm_window(oy, p->stride_h, p->pad_h, p->kernel_h, p->dilation_h, p->in_h);
        for (int32_t ox = 0; ox < p->out_w; ox++) {
            place.columns = dtn_cm_window(ox, p->stride_w, p->pad_w, p->kernel_w, p->dilation_w, p->in_w);
            if (is_apart) {
                each_channel(layer, &place);
            } else {
                each_group(layer, image, &place);
            }
            place.output += p->out_c;
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
static bool are_factors(const layer_t *layer)
{
    for (int32_t i = 0; i < layer->p->out_c; i++) {
        if (layer->multipliers[i] < 0 || layer->multipliers[i] >> MULTIPLIER_BITS != 0 ||
            layer->shifts[i] < BIAS_BITS || layer->shifts[i] > MOST_SHIFT) {
            return false;
        }
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
        .multipliers = (const int32_t *)values[MULTIPLIERS].data,
        .shifts = (const int32_t *)values[SHIFTS].data,
        .bias = (const int32_t *)values[BIAS].data,
        .output = (int16_t *)values[OUTPUT].data,
        .inputs = (size_t)(p->in_c / p->groups),
        .outputs = (size_t)(p->out_c / p->groups),
        .joined = p->groups == 1 && p->dilation_w == 1,
    };
    layer.patch = (size_t)p->kernel_h * (size_t)p->kernel_w * layer.inputs;
    if (!are_factors(&layer)) {
        return DTN_REASON_OPERATOR;
    }
    size_t in_size = (size_t)p->in_h * (size_t)p->in_w * (size_t)p->in_c;
    size_t out_size = (size_t)p->out_h * (size_t)p->out_w * (size_t)p->out_c;
    for (size_t b = 0; b < (size_t)p->batches; b++) {
        run_image(&layer, layer.input + b * in_size, layer.output + b * out_size);
    }
    return DTN_OK;
}
