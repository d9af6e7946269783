#include "deuteron/errors.h"

static ERROR_CATEGORY_DRIVER category_of(dtn_reason_t reason)
{
    switch (reason) {
#define DTN_X(number, name, category, detail, text)                                                                    \
    case DTN_REASON_##name:                                                                                            \
        return ERROR_CATEGORY_DRIVER_##category;
        DTN_REASONS(DTN_X)
#undef DTN_X
    case DTN_OK:
        break;
    }
    return ERROR_CATEGORY_DRIVER_GENERIC;
}

NeutronError dtn_error(dtn_reason_t reason, uint32_t detail)
{
    uint32_t kept = detail > DTN_MAX_DETAIL ? DTN_MAX_DETAIL : detail;
    if (reason == DTN_OK) {
        return ENONE;
    }
    return GEN_NEUTRON_ERROR(ERROR_COMPONENT_DRIVER, category_of(reason), (uint32_t)reason | kept << 8);
}
