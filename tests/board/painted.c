/*
 * Operators between the steps of a program: paint what a plan says is free, and find it as it was. Bundles declare what
 * the firmware has alone, so that these have the names of two operators that the program does not call.
 */
#include <string.h>

#include "deuteron/errors.h"
#include "deuteron/operators.h"

enum { PAINT = 0xA5 };

/* Each value is free but for so many of its first bytes. */
int32_t dtn_op_full(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    for (uint32_t i = 0; phase == DTN_PHASE_RUN && i < call->output_count; i++) {
        const dtn_tensor_t *value = &call->values[i];
        memset((uint8_t *)value->data + call->params[i], PAINT, value->bytes - call->params[i]);
    }
    return DTN_OK;
}

int32_t dtn_op_clamp(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    for (uint32_t i = 0; phase == DTN_PHASE_RUN && i < call->input_count; i++) {
        const uint8_t *bytes = (const uint8_t *)call->values[i].data;
        for (uint32_t at = call->params[i]; at < call->values[i].bytes; at++) {
            if (bytes[at] != PAINT) {
                return DTN_REASON_OPERATOR;
            }
        }
    }
    return DTN_OK;
}
