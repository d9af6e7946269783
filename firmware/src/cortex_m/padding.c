#include "padding.h"

#include <string.h>

#include "int16.h"

typedef dtn_cm_pad_params_t params_t;

enum { RANK = sizeof((params_t *)0)->dims / sizeof(int32_t) };

/* The dimension of which less than none may be added. */
enum { ROWS = 1 };

/* True when a value has as many bytes as the product of the four. */
static bool has_size(const dtn_tensor_t *value, const uint32_t *dims)
{
    /* Below 2^32 before each product, so that 64 bits always hold it. */
    uint64_t size = 1;
    for (uint32_t i = 0; i < RANK && size <= UINT32_MAX; i++) {
        size *= dims[i];
    }
    return size == value->bytes;
}

static void dims_of(const params_t *p, uint32_t *in, uint32_t *out)
{
    for (uint32_t i = 0; i < RANK; i++) {
        in[i] = (uint32_t)p->dims[i];
        out[i] = (uint32_t)(p->dims[i] + p->before[i] + p->after[i]);
    }
}

/* The bytes of an element: of int16, or of int8. */
static uint32_t element_bytes(uint32_t type)
{
    return type == DTN_TYPE_S16 ? sizeof(int16_t) : sizeof(int8_t);
}

static bool is_valid(const dtn_operator_call_t *call, uint32_t type)
{
    if (!DTN_CM_IS_CALL(call, 1, 1, params_t) || !dtn_cm_are(call->values, 2, type)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const int32_t most = (int32_t)DTN_MAX_DIMENSION;
    for (uint32_t i = 0; i < RANK; i++) {
        const int32_t least = i == ROWS ? -most : 0;
        if (p->dims[i] < 1 || p->dims[i] > most || p->before[i] < least || p->before[i] > most || p->after[i] < least ||
            p->after[i] > most || p->dims[i] + p->before[i] + p->after[i] < 1) {
            return false;
        }
    }
    uint32_t in[RANK];
    uint32_t out[RANK];
    dims_of(p, in, out);
    /* Rows in bytes from here on. */
    in[RANK - 1] *= element_bytes(type);
    out[RANK - 1] *= element_bytes(type);
    bool fits = type == DTN_TYPE_S16 ? dtn_cm_is_s16_range(p->value, p->value) : dtn_cm_is_s8(p->value);
    return fits && has_size(&call->values[0], in) && has_size(&call->values[1], out);
}

static void fill(const dtn_tensor_t *to, int32_t value)
{
    if (to->type == DTN_TYPE_S8) {
        memset(to->data, value, to->bytes);
        return;
    }
    int16_t *elements = (int16_t *)to->data;
    for (uint32_t i = 0; i < dtn_cm_s16_elements(to); i++) {
        elements[i] = (int16_t)value;
    }
}

static void run(const dtn_operator_call_t *call)
{
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const uint8_t *from = (const uint8_t *)call->values[0].data;
    uint8_t *to = (uint8_t *)call->values[1].data;
    uint32_t in[RANK];
    uint32_t out[RANK];
    dims_of(p, in, out);
    uint32_t size = element_bytes(call->values[1].type);
    /* Without padding of channels, the pixels of a row are contiguous in input and output. */
    uint32_t pixels = in[3] == out[3] ? in[2] : 1;
    uint32_t length = pixels * in[3] * size;
    fill(&call->values[1], p->value);
    for (uint32_t i = 0; i < in[0]; i++) {
        for (uint32_t j = 0; j < in[1]; j++) {
            int32_t row_of = (int32_t)j + p->before[ROWS];
            if (row_of < 0 || row_of >= (int32_t)out[ROWS]) {
                from += in[2] * in[3] * size;
                continue;
            }
            uint32_t plane = (i + (uint32_t)p->before[0]) * out[1] + (uint32_t)row_of;
            for (uint32_t k = 0; k < in[2]; k += pixels) {
                uint32_t row = plane * out[2] + k + (uint32_t)p->before[2];
                memcpy(to + (row * out[3] + (uint32_t)p->before[3]) * size, from, length);
                from += length;
            }
        }
    }
}

int32_t dtn_cm_padding(const dtn_operator_call_t *call, dtn_phase_t phase, uint32_t type)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call, type) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    run(call);
    return DTN_OK;
}
