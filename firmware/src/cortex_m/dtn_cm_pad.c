#include "padding.h"

int32_t dtn_cm_pad(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    return dtn_cm_padding(call, phase, DTN_TYPE_S8);
}
