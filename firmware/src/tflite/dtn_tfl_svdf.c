#include "../cortex_m/inner_loops.h"
#include "../cortex_m/svdf_filters.h"
#include "integer_common.h"

typedef dtn_tfl_svdf_params_t params_t;

enum { INPUT, FEATURES, TIMES, BIAS };

static bool are_numbers(const params_t *p, uint32_t state)
{
    return p->in_features >= 1 && p->in_features <= DTN_CM_MAX_PRODUCTS && dtn_cm_is_s8(p->in_zp) && p->steps >= 1 &&
           p->steps <= DTN_CM_MAX_PRODUCTS && (state != DTN_TYPE_S16 || p->state_zp == 0) &&
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

/* Steps of filters: from the numbers before the state's scale to the sums over time. */
static void run_filters(const dtn_operator_call_t *call, size_t first, size_t past, int32_t *sums, size_t count)
{
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *times = &call->values[TIMES], *state = &call->values[BIAS + p->has_bias];
    const dtn_tfl_limits_t limits = dtn_tfl_limits(state->type);
    const size_t steps = (size_t)p->steps;
    const dtn_cm_sums_scale_t scale = {p->state_multiplier, p->state_shift, 0, limits.min, limits.max};
    dtn_cm_scale_sums(&scale, sums, count);
    if (state->type == DTN_TYPE_S16) {
        dtn_cm_step_filters_s16((int16_t *)state->data + past, (const int16_t *)times->data + first * steps, steps,
                                sums, count);
        return;
    }
    for (size_t j = 0; j < count && p->state_zp != 0; j++) {
        sums[j] += p->state_zp;
    }
    dtn_cm_step_filters_s8((int8_t *)state->data + past, (const int8_t *)times->data + first * steps, steps,
                           p->state_zp, sums, count);
}

static void run_batch(const dtn_operator_call_t *call, size_t batch)
{
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *values = call->values, *state = &values[BIAS + p->has_bias];
    const int32_t *bias = p->has_bias == 1 ? (const int32_t *)values[BIAS].data : NULL;
    const int8_t *input = (const int8_t *)values[INPUT].data + batch * (size_t)p->in_features;
    const dtn_cm_sums_scale_t scale = {p->out_multiplier, p->out_shift, p->out_zp, INT8_MIN, INT8_MAX};
    const size_t filters = (size_t)p->units * (size_t)p->rank, depth = (size_t)p->in_features;
    int8_t *out = (int8_t *)state[1].data + batch * (size_t)p->units;
    size_t unit = 0;
    int32_t left = p->rank;
    uint32_t sum = 0;
    for (size_t first = 0; first < filters; first += DTN_CM_ROW_SUMS) {
        const size_t count = filters - first < DTN_CM_ROW_SUMS ? filters - first : DTN_CM_ROW_SUMS;
        int32_t sums[DTN_CM_ROW_SUMS] = {0};
        dtn_cm_add_row(input, -p->in_zp, (const int8_t *)values[FEATURES].data + first * depth, depth, count,
                       (uint32_t *)sums);
        run_filters(call, first, (batch * filters + first) * (size_t)p->steps, sums, count);
        /* The sums of units take the place of those of their filters. */
        size_t units = 0;
        for (size_t j = 0; j < count; j++) {
            sum += (uint32_t)sums[j];
            if (--left == 0) {
                sums[units] = (int32_t)(sum + (bias != NULL ? (uint32_t)bias[unit + units] : 0U));
                units++;
                sum = 0;
                left = p->rank;
            }
        }
        dtn_cm_scale_sums(&scale, sums, units);
        for (size_t j = 0; j < units; j++) {
            out[unit++] = (int8_t)sums[j];
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
