#include "progress.h"

#include <stddef.h>

#include "deuteron/driver.h"

static struct {
    dtn_progress_t function;
    void *user;
} installed;

void dtn_set_progress(dtn_progress_t progress, void *user)
{
    installed.function = progress;
    installed.user = user;
}

dtn_reason_t dtn_progress(void)
{
    return installed.function == NULL || installed.function(installed.user) ? DTN_OK : DTN_REASON_ABORTED;
}
