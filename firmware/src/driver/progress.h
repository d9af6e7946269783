/**
 * @file
 * Tells the application that a run goes on, and lets it end the run.
 */
#ifndef DTN_PROGRESS_H
#define DTN_PROGRESS_H

#include "deuteron/errors.h"

/** Calls the function of `dtn_set_progress`, if there is one; DTN_REASON_ABORTED when that says so. */
dtn_reason_t dtn_progress(void);

#endif /* DTN_PROGRESS_H */
