#include "padding.h"

int32_t dtn_cm_pad_s16(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    return dtn_cm_padding(call, phase, DTN_TYPE_S16);
}
