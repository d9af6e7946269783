#include "progress.h"

#include <stddef.h>

#include "deuteron/driver.h"

static dtn_progress_t function;
static void *function_user;

void dtn_set_progress(dtn_progress_t progress, void *user)
{
    function = progress;
    function_user = user;
}

void dtn_progress(void)
{
    if (function != NULL) {
        function(function_user);
    }
}
