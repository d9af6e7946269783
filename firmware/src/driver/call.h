/**
 * @file
 * One call of a kernel: checked once, then run.
 */
#ifndef DTN_CALL_H
#define DTN_CALL_H

#include "types.h"

/** Checks the call whose words, as many as its first word says, start at `command`. */
dtn_reason_t dtn_call_check(const dtn_model_t *model, const uint32_t *command);

/** Runs the checked call at `command` on `buffers`. */
dtn_reason_t dtn_call_run(const dtn_model_t *model, const dtn_buffers_t *buffers, const uint32_t *command);

#endif /* DTN_CALL_H */
