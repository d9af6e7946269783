#include <string.h>

#include "integer_common.h"

typedef dtn_tfl_update_slice_params_t params_t;

enum { INPUT, SLICE, STARTS, OUTPUT, RANK = sizeof((params_t *)0)->dims / sizeof(int32_t), LAST = RANK - 1 };

static bool is_valid(const dtn_operator_call_t *call)
{
    const dtn_tensor_t *values = call->values;
    const uint32_t type = values[INPUT].type, item = dtn_tfl_number_bytes(type), starts = values[STARTS].type;
    if (!DTN_CM_IS_CALL(call, 3, 1, params_t) || item == 0 || values[SLICE].type != type ||
        values[OUTPUT].type != type || (starts != DTN_TYPE_S32 && starts != DTN_TYPE_S64)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const int32_t *d = p->dims, *s = p->slice_dims;
    bool fits = p->rank >= 1 && p->rank <= RANK;
    for (int32_t i = 0; i < RANK; i++) {
        fits = fits && s[i] <= d[i];
    }
    return fits && dtn_cm_has_size(&values[INPUT], DTN_CM_LIST((int32_t)item, d[0], d[1], d[2], d[3], d[4], d[5])) &&
           dtn_cm_has_size(&values[SLICE], DTN_CM_LIST((int32_t)item, s[0], s[1], s[2], s[3], s[4], s[5])) &&
           dtn_cm_has_size(&values[STARTS], DTN_CM_LIST((int32_t)dtn_tfl_number_bytes(starts), p->rank)) &&
           values[OUTPUT].bytes == values[INPUT].bytes;
}

/* The place of a row of the slice in the tensor, in elements; `first` has the starts of the slice. */
static size_t place_of(const params_t *p, const size_t *first, size_t row)
{
    size_t at = first[LAST], step = (size_t)p->dims[LAST];
    for (int32_t i = LAST - 1; i >= 0; i--) {
        const size_t count = (size_t)p->slice_dims[i];
        at += (first[i] + row % count) * step;
        row /= count;
        step *= (size_t)p->dims[i];
    }
    return at;
}

int32_t dtn_tfl_update_slice(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *values = call->values;
    const size_t item = dtn_tfl_number_bytes(values[INPUT].type), row = (size_t)p->slice_dims[LAST] * item;
    size_t first[RANK] = {0};
    for (int32_t i = 0; i < p->rank; i++) {
        const int32_t dim = RANK - p->rank + i;
        const int64_t start = dtn_tfl_whole_at(&values[STARTS], (size_t)i), most = p->dims[dim] - p->slice_dims[dim];
        first[dim] = (size_t)(start < 0 ? 0 : start > most ? most : start);
    }
    uint8_t *out = (uint8_t *)values[OUTPUT].data;
    const uint8_t *slice = (const uint8_t *)values[SLICE].data;
    memcpy(out, values[INPUT].data, values[INPUT].bytes);
    for (size_t i = 0; i < values[SLICE].bytes / row; i++) {
        memcpy(out + place_of(p, first, i) * item, slice + i * row, row);
    }
    return DTN_OK;
}
