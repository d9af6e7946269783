#include "../cortex_m/windows.h"
#include "integer_common.h"

typedef dtn_tfl_resize_bilinear_params_t params_t;

enum { BITS = 10, ONE = 1 << BITS };

static bool is_length(int32_t number)
{
    return number >= 1 && number <= DTN_CM_MAX_DIMENSION;
}

/* True if all positions fit 32 bits, and none is more than a pixel above the map. */
static bool is_axis(int32_t in, int32_t out, int32_t start, int32_t step)
{
    return is_length(in) && is_length(out) && start >= -ONE && start <= DTN_CM_MAX_DIMENSION * ONE && step >= 0 &&
           (int64_t)(out - 1) * step + start <= ((int64_t)in - 1 + 1) * ONE;
}

static bool is_valid(const dtn_operator_call_t *call)
{
    uint32_t type = call->values[0].type;
    if (!DTN_CM_IS_CALL(call, 1, 1, params_t) || !dtn_tfl_is_activation(type) || !dtn_cm_are(call->values, 2, type)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    int32_t item = (int32_t)dtn_tfl_item(type);
    return is_axis(p->in_h, p->out_h, p->start_h, p->step_h) && is_axis(p->in_w, p->out_w, p->start_w, p->step_w) &&
           dtn_cm_has_size(&call->values[0], DTN_CM_LIST(p->batches, p->in_h, p->in_w, p->channels, item)) &&
           dtn_cm_has_size(&call->values[1], DTN_CM_LIST(p->batches, p->out_h, p->out_w, p->channels, item));
}

/* A position between two lines of the map. */
typedef struct {
    uint32_t lower;
    uint32_t upper;
    int32_t rest; /* from the lower one on */
} place_t;

static place_t place_of(int32_t position, int32_t in)
{
    int32_t lower = position / ONE > 0 ? position / ONE : 0;
    int32_t upper = (position + ONE - 1) / ONE;
    upper = upper < in - 1 ? upper : in - 1;
    lower = lower < in - 1 ? lower : in - 1;
    return (place_t){(uint32_t)lower, (uint32_t)upper, position - lower * ONE};
}

static void pixel(const dtn_operator_call_t *call, const place_t *y, const place_t *x, uint32_t image, uint32_t out)
{
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *in = &call->values[0];
    uint32_t channels = (uint32_t)p->channels, line = channels * (uint32_t)p->in_w;
    for (uint32_t c = 0; c < channels; c++) {
        uint32_t top = image + y->lower * line + c, bottom = image + y->upper * line + c;
        int64_t left = (int64_t)dtn_tfl_at(in, top + x->lower * channels) * (ONE - y->rest) +
                       (int64_t)dtn_tfl_at(in, bottom + x->lower * channels) * y->rest;
        int64_t right = (int64_t)dtn_tfl_at(in, top + x->upper * channels) * (ONE - y->rest) +
                        (int64_t)dtn_tfl_at(in, bottom + x->upper * channels) * y->rest;
        int64_t sum = left * (ONE - x->rest) + right * x->rest;
        int64_t half = INT64_C(1) << (2 * BITS - 1);
        dtn_tfl_put(&call->values[1], out + c, (int32_t)((sum > 0 ? sum + half : sum - half) / (half * 2)));
    }
}

int32_t dtn_tfl_resize_bilinear(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    uint32_t out = 0;
    for (int32_t b = 0; b < p->batches; b++) {
        uint32_t image = (uint32_t)b * (uint32_t)p->in_h * (uint32_t)p->in_w * (uint32_t)p->channels;
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            place_t y = place_of(oy * p->step_h + p->start_h, p->in_h);
            for (int32_t ox = 0; ox < p->out_w; ox++, out += (uint32_t)p->channels) {
                place_t x = place_of(ox * p->step_w + p->start_w, p->in_w);
                pixel(call, &y, &x, image, out);
            }
        }
    }
    return DTN_OK;
}
