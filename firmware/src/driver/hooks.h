/**
 * @file
 * The current fetch hooks.
 */
#pragma once

#include "deuteron/driver.h"

/** The hooks that fetch weights. */
const dtn_fetch_hooks_t *dtn_hooks(void);

/** Sets the default hooks (memcpy, no wait). */
void dtn_hooks_reset(void);
