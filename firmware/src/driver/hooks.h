/**
 * @file
 * The hooks that fetch weights, and what they report.
 */
#ifndef DTN_HOOKS_H
#define DTN_HOOKS_H

#include "deuteron/errors.h"
#include "NeutronDriver.h"

/** The copy and wait hooks in force. */
const NeutronConfig *dtn_hooks(void);

/** Puts the default hooks (memcpy, nothing to wait for) in force. */
void dtn_hooks_reset(void);

/** Forgets what the hooks reported; called when a run starts. */
void dtn_fetch_clear(void);

/** DTN_REASON_FETCH when a hook has reported a failure since the run started. */
dtn_reason_t dtn_fetch_state(void);

#endif /* DTN_HOOKS_H */
