/**
 * @file
 * The current fetch hooks.
 */
#ifndef DTN_HOOKS_H
#define DTN_HOOKS_H

#include "deuteron/driver.h"

/** The hooks that fetch weights. */
const dtn_fetch_hooks_t *dtn_hooks(void);

/** Sets the default hooks (memcpy, no wait). */
void dtn_hooks_reset(void);

#endif /* DTN_HOOKS_H */
