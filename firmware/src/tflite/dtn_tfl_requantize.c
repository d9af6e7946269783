#include "../cortex_m/svdf_filters.h"
#include "integer_common.h"

typedef dtn_tfl_requantize_params_t params_t;

static bool is_whole(uint32_t type)
{
    return dtn_tfl_is_activation(type) || type == DTN_TYPE_U8 || type == DTN_TYPE_S32;
}

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 1, 1, params_t)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *in = &call->values[0], *out = &call->values[1];
    return is_whole(in->type) && is_whole(out->type) &&
           dtn_cm_has_size(in, DTN_CM_LIST(p->elements, (int32_t)dtn_tfl_item(in->type))) &&
           dtn_cm_has_size(out, DTN_CM_LIST(p->elements, (int32_t)dtn_tfl_item(out->type))) &&
           dtn_tfl_holds(in->type, p->in_zp) && dtn_tfl_holds(out->type, p->out_zp) &&
           dtn_tfl_is_factor(p->multiplier, p->shift) && dtn_tfl_is_range(out->type, p->act_min, p->act_max);
}

static int32_t load(const dtn_tensor_t *value, size_t at)
{
    switch (value->type) {
    case DTN_TYPE_U8:
        return ((const uint8_t *)value->data)[at];
    case DTN_TYPE_S32:
        return ((const int32_t *)value->data)[at];
    default:
        return dtn_tfl_at(value, at);
    }
}

/* Elements that are scaled at once. */
enum { CHUNK = 32 };

static void load_chunk(const dtn_tensor_t *value, size_t first, size_t count, int32_t zero_point, int32_t *numbers)
{
    const int8_t *bytes = (const int8_t *)value->data + first;
    for (size_t i = 0; i < count && value->type == DTN_TYPE_S8; i++) {
        numbers[i] = bytes[i] - zero_point;
    }
    for (size_t i = 0; i < count && value->type != DTN_TYPE_S8; i++) {
        numbers[i] = (int32_t)((uint32_t)load(value, first + i) - (uint32_t)zero_point);
    }
}

static void store_chunk(const dtn_tensor_t *value, size_t first, size_t count, const int32_t *numbers)
{
    for (size_t i = 0; i < count; i++) {
        if (value->type == DTN_TYPE_S32) {
            ((int32_t *)value->data)[first + i] = numbers[i];
        } else {
            /* The low byte of a uint8 is that of the int8 with the same bits. */
            dtn_tfl_put(value, first + i, numbers[i]);
        }
    }
}

int32_t dtn_tfl_requantize(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_cm_sums_scale_t scale = {p->multiplier, p->shift, p->out_zp, p->act_min, p->act_max};
    const size_t elements = (size_t)p->elements;
    for (size_t first = 0; first < elements; first += CHUNK) {
        int32_t numbers[CHUNK];
        const size_t count = elements - first < CHUNK ? elements - first : CHUNK;
        load_chunk(&call->values[0], first, count, p->in_zp, numbers);
        dtn_cm_scale_sums(&scale, numbers, count);
        store_chunk(&call->values[1], first, count, numbers);
    }
    return DTN_OK;
}
