#include "events.h"

#include "deuteron/profile.h"
#include "semihost.h"

static dtn_file_t file = DTN_NO_FILE;

bool dtn_events_open(const char *name)
{
    file = dtn_semihost_open(name, true);
    return file != DTN_NO_FILE;
}

bool dtn_port_events(const void *data, uint32_t bytes)
{
    return file == DTN_NO_FILE || dtn_semihost_write(file, data, bytes);
}

bool dtn_events_close(void)
{
    return file == DTN_NO_FILE || dtn_semihost_close(file);
}
