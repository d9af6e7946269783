#include "float32_common.h"
#include "reductions.h"

typedef dtn_tfl_reduce_params_t params_t;

enum { SUM, MEAN, PRODUCT, LARGEST, LEAST, KINDS };

/* Bytes of an element, or 0 of a type that is not reduced. */
static uint32_t item_of(uint32_t type)
{
    switch (type) {
    case DTN_TYPE_BOOL:
        return 1;
    case DTN_TYPE_S32:
    case DTN_TYPE_F32:
        return 4;
    case DTN_TYPE_S64:
        return 8;
    default:
        return 0;
    }
}

static bool is_valid(const dtn_operator_call_t *call)
{
    uint32_t type = call->values[0].type, item = item_of(type);
    if (!DTN_CM_IS_CALL(call, 1, 1, params_t) || item == 0 || !dtn_cm_are(call->values, 2, type)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    uint32_t elements = call->values[0].bytes / item;
    return p->kind >= (type == DTN_TYPE_BOOL ? LARGEST : SUM) && p->kind < KINDS &&
           (p->kind != MEAN || type == DTN_TYPE_F32) &&
           dtn_index_is_inside(p->kept, p->kept_strides, call->values[1].bytes / item, elements) &&
           dtn_tfl_is_reduction(p->kept, p->kept_strides, p->reduced, p->reduced_strides, elements);
}

static float next_real(int32_t kind, float so_far, float x)
{
    switch (kind) {
    case PRODUCT:
        return so_far * x;
    case LARGEST:
        return x > so_far ? x : so_far;
    case LEAST:
        return x < so_far ? x : so_far;
    default:
        return so_far + x;
    }
}

/* Sums and products that do not fit 64 bits keep their low ones. */
static int64_t next_whole(int32_t kind, int64_t so_far, int64_t x)
{
    switch (kind) {
    case PRODUCT:
        return (int64_t)((uint64_t)so_far * (uint64_t)x);
    case LARGEST:
        return x > so_far ? x : so_far;
    case LEAST:
        return x < so_far ? x : so_far;
    default:
        return (int64_t)((uint64_t)so_far + (uint64_t)x);
    }
}

static int64_t load(const dtn_tensor_t *value, size_t at)
{
    return value->type == DTN_TYPE_S64   ? ((const int64_t *)value->data)[at]
           : value->type == DTN_TYPE_S32 ? ((const int32_t *)value->data)[at]
                                         : ((const uint8_t *)value->data)[at];
}

static void store(const dtn_tensor_t *value, size_t at, int64_t number)
{
    if (value->type == DTN_TYPE_S64) {
        ((int64_t *)value->data)[at] = number;
    } else if (value->type == DTN_TYPE_S32) {
        ((int32_t *)value->data)[at] = (int32_t)(uint32_t)(uint64_t)number;
    } else {
        ((uint8_t *)value->data)[at] = (uint8_t)number;
    }
}

/* An element of the output: what it starts from is the first element, but for sums and products 0 and 1. */
static void reduced(const params_t *p, const dtn_tensor_t *in, const dtn_tensor_t *out, uint32_t first, size_t at)
{
    enum { LAST = DTN_INDEX_RANK - 1 };
    bool is_real = in->type == DTN_TYPE_F32, is_chosen = p->kind >= LARGEST;
    float real = is_real && is_chosen ? ((const float *)in->data)[first] : p->kind == PRODUCT ? 1.0F : 0.0F;
    int64_t whole = !is_real && is_chosen ? load(in, first) : p->kind == PRODUCT ? 1 : 0;
    uint32_t rows = dtn_tfl_reduced_rows(p->reduced);
    int32_t index[DTN_INDEX_RANK] = {0};
    for (uint32_t row = 0; row < rows; row++) {
        uint32_t from = first + dtn_index_offset(index, p->reduced_strides);
        for (int32_t i = 0; i < p->reduced[LAST]; i++, from += (uint32_t)p->reduced_strides[LAST]) {
            if (is_real) {
                real = next_real(p->kind, real, ((const float *)in->data)[from]);
            } else {
                whole = next_whole(p->kind, whole, load(in, from));
            }
        }
        index[LAST] = p->reduced[LAST] - 1;
        dtn_index_next(index, p->reduced);
    }
    if (is_real) {
        ((float *)out->data)[at] = p->kind == MEAN ? real / (float)(rows * (uint32_t)p->reduced[LAST]) : real;
    } else {
        store(out, at, whole);
    }
}

int32_t dtn_tfl_reduce(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *out = &call->values[1];
    int32_t index[DTN_INDEX_RANK] = {0};
    for (size_t i = 0; i < out->bytes / item_of(out->type); i++) {
        reduced(p, &call->values[0], out, dtn_index_offset(index, p->kept_strides), i);
        dtn_index_next(index, p->kept);
    }
    return DTN_OK;
}
