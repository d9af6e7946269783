#include "events.h"

#include "deuteron/profile.h"
#include "semihost.h"

static dtn_file_t file = DTN_NO_FILE;

bool dtn_events_open(const char *name)
{
    file = dtn_semihost_open(name, true);
    return file != DTN_NO_FILE;
}

bool dtn_port_events(const dtn_profile_header_t *header, const dtn_event_t *events)
{
    if (file == DTN_NO_FILE) {
        return true;
    }
    return dtn_semihost_write(file, header, sizeof *header) &&
           dtn_semihost_write(file, events, header->events * sizeof *events);
}

bool dtn_events_close(void)
{
    return file == DTN_NO_FILE || dtn_semihost_close(file);
}
