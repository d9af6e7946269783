/**
 * @file
 * The hooks in force: those that fetch weights, and the one that is told of progress.
 */
#ifndef DTN_HOOKS_H
#define DTN_HOOKS_H

#include "deuteron/driver.h"

/** The hooks that fetch weights. */
const dtn_fetch_hooks_t *dtn_hooks(void);

/** Puts the default hooks (memcpy, nothing to wait for) in force. */
void dtn_hooks_reset(void);

/** Calls the hook that is told of progress, if there is one. */
void dtn_progress(void);

#endif /* DTN_HOOKS_H */
