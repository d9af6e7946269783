#include "operations.h"
#include "registers.h"

dtn_ethosu_fault_t dtn_eu_resize(dtn_ethosu_t *m)
{
    return dtn_eu_fault(m, DTN_ETHOSU_UNSUPPORTED, DTN_ETHOSU_OP_RESIZE);
}
