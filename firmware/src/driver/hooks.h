/**
 * @file
 * The hooks in force.
 */
#ifndef DTN_HOOKS_H
#define DTN_HOOKS_H

#include "deuteron/driver.h"

/** The hooks that fetch weights. */
const dtn_fetch_hooks_t *dtn_hooks(void);

/** Puts the default hooks (memcpy, nothing to wait for) in force. */
void dtn_hooks_reset(void);

#endif /* DTN_HOOKS_H */
