/**
 * @file
 * Reports progress of a run to the application, which may abort it.
 */
#pragma once

#include "deuteron/errors.h"

/** Calls the function of `dtn_set_progress`, if there is one; DTN_REASON_ABORTED if it requests that. */
dtn_reason_t dtn_progress(void);
