#include "deuteron/cortex_m.h"
#include "maximum_minimum.h"

int32_t dtn_cm_maximum(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    return dtn_cm_extremum(call, phase, 1);
}
