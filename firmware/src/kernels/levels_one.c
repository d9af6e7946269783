/* The levels of a host whose architecture has one. */
#include "../driver/driver.h"
#include "deuteron/levels.h"

const char *dtn_level_name(int32_t level)
{
    return level == 0 ? "portable" : NULL;
}

bool dtn_has_level(int32_t level)
{
    return level == 0;
}

int32_t dtn_level(void)
{
    return 0;
}

bool dtn_use_level(int32_t level)
{
    return level == 0;
}

size_t dtn_panel_bytes(NeutronModelHandle hdl)
{
    (void)hdl;
    return 0;
}

NeutronError dtn_use_panels(NeutronModelHandle hdl, void *memory, size_t bytes)
{
    (void)memory;
    (void)bytes;
    return dtn_model_of(hdl) == NULL ? dtn_error(DTN_REASON_BAD_HANDLE, 0) : ENONE;
}
