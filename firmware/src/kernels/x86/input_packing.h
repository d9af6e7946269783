/**
 * @file
 * Inputs in the layout that vectors multiply.
 */
#ifndef DTN_INPUT_PACKING_H
#define DTN_INPUT_PACKING_H

#include "vector.h"

/** Writes `count` inputs, and reads and writes nothing beyond them. */
static inline void dtn_values(const int8_t *in, size_t count, int32_t zero_point, dtn_value_t *out)
{
    size_t i = 0;
    for (; i + DTN_VALUES <= count; i += DTN_VALUES) {
        dtn_keep((int32_t *)(void *)(out + i), dtn_inputs(in + i, zero_point));
    }
    for (; i + 16 <= count; i += 16) {
        dtn_values16(in + i, zero_point, out + i);
    }
    if (i < count && count >= 16) {
        dtn_values16(in + count - 16, zero_point, out + count - 16);
        return;
    }
    for (; i < count; i++) {
        out[i] = dtn_value(in[i], zero_point);
    }
}

#endif /* DTN_INPUT_PACKING_H */
