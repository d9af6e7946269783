#include "../cortex_m/dot_product_s8.h"
#include "numbers.h"

typedef dtn_tfl_svdf_params_t params_t;

enum { INPUT, FEATURES, TIMES, BIAS };

static bool are_numbers(const params_t *p, uint32_t state)
{
    return p->in_features >= 1 && p->in_features <= DTN_CM_MAX_PRODUCTS && dtn_cm_is_s8(p->in_zp) &&
           dtn_tfl_holds(state, p->state_zp) && dtn_cm_is_s8(p->out_zp) &&
           dtn_tfl_is_factor(p->state_multiplier, p->state_shift) &&
           dtn_tfl_is_factor(p->out_multiplier, p->out_shift) && (p->has_bias == 0 || p->has_bias == 1);
}

static bool is_valid(const dtn_operator_call_t *call)
{
    if (call->param_count != sizeof(params_t) / sizeof(uint32_t)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *values = call->values;
    uint32_t type = values[TIMES].type;
    if (!dtn_tfl_is_activation(type) || !are_numbers(p, type) || call->input_count != (uint32_t)(BIAS + p->has_bias) ||
        call->output_count != 2) {
        return false;
    }
    const dtn_tensor_t *state = &values[BIAS + p->has_bias], *out = state + 1;
    int32_t item = (int32_t)dtn_tfl_item(type);
    return values[INPUT].type == DTN_TYPE_S8 && values[FEATURES].type == DTN_TYPE_S8 && state->type == type &&
           out->type == DTN_TYPE_S8 && p->units >= 1 && p->rank >= 1 && p->rank <= INT32_MAX / p->units &&
           dtn_cm_has_size(&values[INPUT], DTN_CM_LIST(p->batches, p->in_features)) &&
           dtn_cm_has_size(&values[FEATURES], DTN_CM_LIST(p->units, p->rank, p->in_features)) &&
           dtn_cm_has_size(&values[TIMES], DTN_CM_LIST(item, p->units, p->rank, p->steps)) &&
           (p->has_bias == 0 ||
            (values[BIAS].type == DTN_TYPE_S32 && dtn_cm_has_size(&values[BIAS], DTN_CM_LIST(4, p->units)))) &&
           dtn_cm_has_size(state, DTN_CM_LIST(item, p->batches, p->units, p->rank, p->steps)) &&
           dtn_cm_has_size(out, DTN_CM_LIST(p->batches, p->units));
}

/* Moves the past of a filter by one step, and adds the newest one. Returns the sum over time. */
static uint32_t step_s8(int8_t *past, const int8_t *times, int32_t steps, int32_t newest, int32_t zero_point)
{
    uint32_t sum = 0;
    for (int32_t i = 0; i < steps; i++) {
        past[i] = i + 1 < steps ? past[i + 1] : (int8_t)newest;
        sum += (uint32_t)((past[i] - zero_point) * times[i]);
    }
    return sum;
}

static uint32_t step_s16(int16_t *past, const int16_t *times, int32_t steps, int32_t newest, int32_t zero_point)
{
    uint32_t sum = 0;
    for (int32_t i = 0; i < steps; i++) {
        past[i] = i + 1 < steps ? past[i + 1] : (int16_t)newest;
        sum += (uint32_t)(past[i] - zero_point) * (uint32_t)times[i];
    }
    return sum;
}

static void run_batch(const dtn_operator_call_t *call, size_t batch)
{
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *values = call->values, *state = &values[BIAS + p->has_bias];
    const int32_t *bias = p->has_bias == 1 ? (const int32_t *)values[BIAS].data : NULL;
    const int8_t *input = (const int8_t *)values[INPUT].data + batch * (size_t)p->in_features;
    const dtn_tfl_limits_t limits = dtn_tfl_limits(state->type), bytes = dtn_tfl_limits(DTN_TYPE_S8);
    size_t filters = (size_t)p->units * (size_t)p->rank, steps = (size_t)p->steps, unit = 0;
    size_t past = batch * filters * steps;
    int8_t *out = (int8_t *)state[1].data + batch * (size_t)p->units;
    int32_t left = p->rank;
    uint32_t sum = bias != NULL ? (uint32_t)bias[0] : 0;
    for (size_t first = 0; first < filters; first += DTN_CM_ROWS) {
        const int8_t *rows[DTN_CM_ROWS];
        uint32_t dots[DTN_CM_ROWS] = {0};
        dtn_cm_rows_of((const int8_t *)values[FEATURES].data, (size_t)p->in_features, first, filters, rows);
        dtn_cm_add_dots(input, -p->in_zp, rows, 0, (size_t)p->in_features, dots);
        for (size_t filter = first; filter < filters && filter < first + DTN_CM_ROWS; filter++, past += steps) {
            int32_t newest = dtn_cm_requantize((int32_t)dots[filter - first], p->state_multiplier, p->state_shift);
            newest = dtn_cm_clamp(newest, limits.min, limits.max) + p->state_zp;
            sum += state->type == DTN_TYPE_S8
                       ? step_s8((int8_t *)state->data + past, (const int8_t *)values[TIMES].data + filter * steps,
                                 p->steps, newest, p->state_zp)
                       : step_s16((int16_t *)state->data + past, (const int16_t *)values[TIMES].data + filter * steps,
                                  p->steps, newest, p->state_zp);
            if (--left == 0) {
                out[unit++] = (int8_t)dtn_tfl_scaled((int32_t)sum, p->out_multiplier, p->out_shift, p->out_zp, bytes);
                sum = bias != NULL && unit < (size_t)p->units ? (uint32_t)bias[unit] : 0;
                left = p->rank;
            }
        }
    }
}

int32_t dtn_tfl_svdf(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    for (size_t batch = 0; batch < (size_t)p->batches; batch++) {
        run_batch(call, batch);
    }
    return DTN_OK;
}
